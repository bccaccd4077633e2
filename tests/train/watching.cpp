// What watches over a run: stop requests, loss spikes, faults on demand, and the progress in a checkpoint.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "train/faults.h"
#include "train/progress.h"
#include "train/spikes.h"
#include "train/stop.h"

namespace strata::train {
namespace {

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

class Stop : public ::testing::Test {
 protected:
  Stop() { std::filesystem::create_directories(folder); }
  ~Stop() override { std::filesystem::remove_all(folder); }
  const std::string folder = ::testing::TempDir() + "strata_stop_" + std::to_string(getpid());
};

TEST_F(Stop, SignalsAreNotedByName) {
  for (const auto& [number, name] :
       {std::pair{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}}) {
    const StopSignals signals;
    StopRequests stop(folder, {});
    EXPECT_EQ(stop.reason(), std::nullopt);
    std::raise(number);
    EXPECT_EQ(stop.reason(), name);
    EXPECT_EQ(stop.reason(), name) << "a reason stays";
  }
}

// Ranks that are threads begin and end at different times, each with its own StopRequests.
TEST_F(Stop, SignalsAreNotedBeforeTheFirstRankAndBehindTheLast) {
  std::signal(SIGTERM, SIG_IGN);
  {
    const StopSignals signals;
    std::raise(SIGTERM);
    EXPECT_EQ(StopRequests(folder, {}).reason(), "SIGTERM") << "noted before a rank looked";
    EXPECT_EQ(StopRequests({}, {}).reason(), "SIGTERM") << "by every rank";
    std::raise(SIGUSR1);  // would end the process
    EXPECT_EQ(StopRequests({}, {}).reason(), "SIGUSR1");
  }
  EXPECT_EQ(std::signal(SIGTERM, SIG_DFL), SIG_IGN) << "as it was before";
  const StopSignals again;
  EXPECT_EQ(StopRequests({}, {}).reason(), std::nullopt);
}

TEST_F(Stop, FileStopsOnceAndOneLeftBehindDoesNot) {
  std::ofstream(folder + "/stop").put('\n');
  StopRequests stop(folder, {});
  EXPECT_EQ(stop.reason(), std::nullopt);
  std::ofstream(folder + "/stop").put('\n');
  EXPECT_EQ(stop.reason(), "the file " + folder + "/stop");
  EXPECT_FALSE(std::filesystem::exists(folder + "/stop"));
}

TEST_F(Stop, ClockRunsOut) {
  StopRequests late(folder, 60.0);
  EXPECT_EQ(late.reason(), std::nullopt);
  StopRequests soon(folder, 1e-4);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(soon.reason(), "resilience.exit_duration_in_mins 0.0001");
}

TEST(Spikes, DeviationsAreThoseOfTheWindowOnceItIsFull) {
  SpikeDetector spikes(4);
  for (const double loss : {9.0, 1.0, 3.0, 1.0}) {
    EXPECT_EQ(spikes.deviations(100), 0);
    spikes.add(loss);
  }
  spikes.add(3.0);  // 1 3 1 3: mean 2, deviation 1
  EXPECT_DOUBLE_EQ(spikes.deviations(8.5), 6.5);
  EXPECT_DOUBLE_EQ(spikes.deviations(-1), -3);
  SpikeDetector again(4);
  again.restore(spikes.losses());
  EXPECT_EQ(again.deviations(8.5), spikes.deviations(8.5));
  SpikeDetector flat(2);
  flat.add(1);
  flat.add(1);
  EXPECT_EQ(flat.deviations(2), 0);
}

TEST(Faults, WordsBecomeFaults) {
  const Faults f = parse_faults({"nan@step=5", "nan@step=7", "kill@save=3", "bitflip@checkpoint=10"});
  EXPECT_EQ(f.nan_at_step, (std::set<std::int64_t>{5, 7}));
  EXPECT_EQ(f.kill_at_save, 3);
  EXPECT_EQ(f.bitflip_at_checkpoint, (std::set<std::int64_t>{10}));
  EXPECT_EQ(f.full_at_save, std::nullopt);
}

TEST(Faults, OfOneRank) {
  const std::vector<std::string> words{"kill@step=5,rank=2", "sleep@step=3"};
  EXPECT_EQ(parse_faults(words, 2).kill_at_step, (std::set<std::int64_t>{5}));
  EXPECT_TRUE(parse_faults(words, 1).kill_at_step.empty());
  EXPECT_EQ(parse_faults(words, 1).sleep_at_step, (std::set<std::int64_t>{3}));
  for (const char* word : {"kill@step=5,rank=", "kill@step=5,rank=x", "kill@step=5,ran=1", "kill@step=5,"})
    EXPECT_EQ(message([&] { parse_faults({word}); }),
              concat("--inject: \"", word, "\" may end with a rank, as in kill@step=5,rank=1"));
}

TEST(Faults, WhatAllRanksAgreeOnStrikesThemAll) {
  for (const char* word : {"nan@step=5,rank=1", "spike@step=5,rank=1", "bitflip@checkpoint=5,rank=1"})
    EXPECT_NE(message([&] { parse_faults({word}); }).find(" strikes all ranks, leave out ,rank=1"),
              std::string::npos);
}

TEST(Faults, OtherWordsAreAnsweredWithTheNearest) {
  EXPECT_EQ(
      message([] { parse_faults({"nan@stp=5"}); }),
      "--inject: \"nan@stp\" is not a fault, nearest is nan@step, there are nan@step, spike@step, "
      "term@step, kill@step, throw@step, sleep@step, bitflip@checkpoint, term@save, kill@save, full@save");
  for (const char* word : {"nan@step", "nan@step=", "nan@step=0", "nan@step=5x", "nan@step=-1"})
    EXPECT_EQ(message([&] { parse_faults({word}); }),
              concat("--inject: \"", word, "\" needs a number from 1, as in nan@step=5"));
}

TEST(Progress, ReadsBackToTheSameBits) {
  Progress p{.step = 12,
             .updates = 11,
             .samples = 48,
             .tokens = 1536,
             .skipped = 1,
             .skipped_in_a_row = 0,
             .evaluation_due = true,
             .data = "0123abcd",
             .losses = {1.0 / 3, 5e-324, 1.7976931348623157e308}};
  EXPECT_EQ(parse_progress(progress_json(p), "state.json"), p);
  EXPECT_EQ(parse_progress(progress_json({}), "state.json"), Progress{});
}

Progress three_steps() {
  Progress p;
  p.step = 3;
  p.data = "x";
  return p;
}

TEST(Progress, EveryKeyMustBeThereAndRight) {
  const std::string good = progress_json(three_steps());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return message([&] { parse_progress(text, "state.json"); });
  };
  EXPECT_EQ(with("\"step\": 3", "\"step\": -3"), "state.json: step is -3, expected an integer from 0");
  EXPECT_EQ(with("\"step\": 3", "\"step\": 3.5"), "state.json: step is 3.5, expected an integer from 0");
  EXPECT_EQ(with("\"tokens\"", "\"token\""), "state.json: token is unknown");
  EXPECT_EQ(with("\"step\": 3,", ""), "state.json: step is missing");
  EXPECT_EQ(with("\"x\"", "7"), "state.json: data is 7, expected a string");
  EXPECT_EQ(with("[]", "[true]"), "state.json: losses holds true, expected numbers");
  EXPECT_EQ(with("false", "0"), "state.json: evaluation_due is 0, expected true or false");
}

}  // namespace
}  // namespace strata::train
