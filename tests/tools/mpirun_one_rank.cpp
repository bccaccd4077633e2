// One rank of two that mpirun started, picked out by its process: it never starts, it stands still, or it
// alone is told to stop.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "mpirun_test.h"

namespace strata::test {
namespace {

std::string of_process(int id, const std::string& file) {
  std::ifstream stream("/proc/" + std::to_string(id) + "/" + file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

bool catches_sigterm(int id) {
  const std::string status = of_process(id, "status"), key = "SigCgt:";
  const std::size_t at = status.find(key);
  return at != std::string::npos &&
         (std::stoull(status.substr(at + key.size()), nullptr, 16) >> (SIGTERM - 1) & 1);
}

class OneRank : public MpirunTest {
 protected:
  OneRank() : MpirunTest(20000) {}

  static Words endless(Words more) {
    more.insert(more.end(), {"training.train_iters=3000", "training.eval_interval=1"});
    return settings("run", more);
  }

  // To rank 1, once `there`, asked of its process, holds.
  static void signal_rank(int mpirun, int number, const std::function<bool(int)>& there) {
    for (int i = 0; i < 6000; ++i) {
      for (const int rank : ranks_of(mpirun))
        if (of_process(rank, "environ").find("OMPI_COMM_WORLD_RANK=1") != std::string::npos && there(rank)) {
          kill(rank, number);
          return;
        }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "rank 1 did not come that far";
  }
  // A run whose rank 1 gets SIGTERM: all ranks save and end well.
  std::string train_until(const Words& more, const std::function<bool(int)>& there) const {
    const int child = place.start(mpirun(2, endless(more)));
    signal_rank(child, SIGTERM, there);
    const Outcome o = place.wait_for(child);
    EXPECT_EQ(o.status, 0) << o.err;
    return o.err;
  }
};

TEST_F(OneRank, IsToldToStopWhileTheRunStartsAndWhileItEvaluates) {
  const Words stages{"parallel.pipeline_model_parallel_size=2", "training.eval_iters=100000"};
  const std::string starting = train_until(stages, catches_sigterm);
  EXPECT_NE(starting.find("stopped by a signal to another rank after step 0 of 3000, saved"),
            std::string::npos)
      << starting;
  const std::string evaluating =
      train_until(stages, [&](int) { return place.read(".err").find("step 1/3000") != std::string::npos; });
  EXPECT_NE(evaluating.find("goes on behind step 0"), std::string::npos) << evaluating;
  EXPECT_NE(evaluating.find("stopped by a signal to another rank after step 1 of 3000, saved"),
            std::string::npos)
      << evaluating;
  EXPECT_NE(place.read("run/checkpoints/step_00000001/state.json").find("\"evaluation_due\": true"),
            std::string::npos);
}

// Both ranks open the data once they have met.
TEST_F(OneRank, StandsStillWhileAModelIsEvaluated) {
  const Outcome trained = place.strata(settings("run", {}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const int child = place.start({"mpirun", "-n", "2", STRATA_BINARY, "eval", "--checkpoint", "run", "--set",
                                 "resilience.watchdog_seconds=0.5"});
  signal_rank(child, SIGSTOP,
              [](int id) { return of_process(id, "maps").find("text.bin") != std::string::npos; });
  const Outcome o = place.wait_for(child);
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("s for rank 1 (pp 0/1 dp 1/2 ep 0/1): all_reduce "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("strata: rank 1 (pp 0/1 dp 1/2 ep 0/1) did not come within 0.5 s"), std::string::npos)
      << o.err;
}

// Nothing would fail: the numbers would be wrong.
TEST_F(OneRank, WasGivenSomethingElse) {
  const std::string rule = ": all ranks need the same command, configuration and data\n";
  const auto refuse = [&](const Words& more, const std::string& why) {
    Words words = mpirun(1, settings("run", {}));
    Words second = mpirun(1, settings("run", {}));
    second[0] = ":";
    words.insert(words.end(), second.begin(), second.end());
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = place.command(words);
    EXPECT_EQ(o.status, 2);
    EXPECT_NE(o.err.find("strata: " + why + rule), std::string::npos) << o.err;
    EXPECT_EQ(o.err.find("strata: "), o.err.rfind("strata: ")) << "said once\n" << o.err;
    EXPECT_FALSE(std::filesystem::exists(place.path("run/checkpoints")));
  };
  refuse({"--set", "run.seed=8"}, "run.seed is 8 on rank 1 and 1234 on rank 0");
  refuse({"--overwrite"}, "command is \"train --overwrite\" on rank 1 and \"train\" on rank 0");
}

TEST_F(OneRank, ReadsOtherData) {
  std::filesystem::create_directory(place.path("other"));
  place.write("other/text.txt", sample_text(20001));
  ASSERT_EQ(place.strata({"prepare", "other/text.txt", "--output", "other/text"}).status, 0);
  const Words run = settings(place.path("run"), {});
  Words words = mpirun(1, run), second = mpirun(1, run);
  second[0] = ":";
  second.insert(second.begin() + 1, {"-wdir", place.path("other")});
  words.insert(words.end(), second.begin(), second.end());
  const Outcome o = place.command(words);
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(o.err.find("strata: the content of data.train is \""), std::string::npos) << o.err;
}

TEST_F(OneRank, NeverStarts) {
  Words words{"mpirun", "-n",         "2",
              "sh",     "-c",         "[ $OMPI_COMM_WORLD_RANK = 1 ] && exec sleep 60; exec \"$@\"",
              "sh",     STRATA_BINARY};
  const Words run = endless({"resilience.watchdog_seconds=0.1"});
  words.insert(words.end(), run.begin(), run.end());
  const auto begin = std::chrono::steady_clock::now();
  const Outcome o = place.command(words);
  EXPECT_EQ(o.status, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_NE(
      o.err.find("error: rank 0 of 2 has waited 1 s (10 x resilience.watchdog_seconds) for all ranks to "
                 "start: one that does not say this has not started"),
      std::string::npos)
      << o.err;
}

}  // namespace
}  // namespace strata::test
