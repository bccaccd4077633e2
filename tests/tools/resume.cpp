// Runs that stop, fail, are killed and go on: the numbers are those of one run that never stopped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "strata_binary.h"

namespace strata::test {
namespace {

using Words = std::vector<std::string>;

using Json = nlohmann::json;
namespace fs = std::filesystem;

std::string concat_name(const std::string& a, std::string fault) {
  std::replace_if(
      fault.begin(), fault.end(), [](char c) { return c == '@' || c == '='; }, '_');
  return a + "_" + fault;
}

class Resume : public ::testing::Test {
 protected:
  Resume() {
    place.write("text.txt", sample_text(900));
    place.write("other.txt", sample_text(120));
    for (const char* name : {"text", "other"})
      EXPECT_EQ(place.strata({"prepare", std::string(name) + ".txt", "--output", name}).status, 0);
  }

  // Ten steps of the tiny configuration into runs/FOLDER, a checkpoint every second step, unless `more` says
  // otherwise.
  Outcome train(const std::string& folder, std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"train", tiny_config()};
    for (const char* setting :
         {"data.train=[{\"path\":\"text\"}]", "training.train_iters=10", "checkpoint.save_interval=2",
          "checkpoint.most_recent_k=0", "data.validation={\"other\":{\"path\":\"other\"}}",
          "training.eval_interval=4", "training.eval_iters=2", "resilience.spike_window=4",
          "logging.peak_flops=0"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--set", "run.output_dir=" + folder});
    words.insert(words.end(), more.begin(), more.end());
    return place.strata(words);
  }

  std::vector<Json> metrics(const std::string& folder) const {
    std::istringstream lines(place.read(folder + "/metrics.jsonl"));
    std::vector<Json> all;
    for (std::string line; std::getline(lines, line);) {
      all.push_back(Json::parse(line));
      std::erase_if(all.back().get_ref<Json::object_t&>(), [](const auto& metric) {
        const std::string& name = metric.first;
        return name == "tokens per second" || name.starts_with("elapsed time") || name.starts_with("mem-") ||
               name.starts_with("throughput") || name == "share of peak";
      });
    }
    return all;
  }

  // Weights, moments and progress of a checkpoint.
  std::vector<std::string> state(const std::string& folder, int step) const {
    char name[32];
    std::snprintf(name, sizeof name, "/checkpoints/step_%08d/", step);
    std::vector<std::string> files;
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
      files.push_back(place.read(folder + name + file));
    return files;
  }

  void expect_same(const std::string& a, const std::string& b, int step = 10) const {
    EXPECT_EQ(state(a, step), state(b, step)) << a << " and " << b << " differ at step " << step;
    EXPECT_EQ(metrics(a), metrics(b));
  }

  std::vector<std::string> steps(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(place.path(folder + "/checkpoints")))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  Workplace place;
};

TEST_F(Resume, TenStepsAreFiveAndFive) {
  ASSERT_EQ(train("whole").status, 0);
  for (const char* how : {"nan@step=99", "nan@step=3"}) {  // the second: with a skipped step before
    const std::string one = concat_name("one", how), two = concat_name("two", how);
    ASSERT_EQ(train(one, {"--inject", how}).status, 0);
    Outcome o = train(two, {"--inject", how, "--inject", "term@step=5"});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("stopped by SIGTERM after step 5 of 10"), std::string::npos) << o.err;
    o = train(two);
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("goes on behind step 5, from " + two), std::string::npos) << o.err;
    expect_same(one, two);
  }
  expect_same("whole", concat_name("one", "nan@step=99"));
  EXPECT_NE(state("whole", 10), state(concat_name("one", "nan@step=3"), 10));
}

TEST_F(Resume, SpikesAreJudgedByTheLossesBeforeTheStop) {
  const std::vector<std::string> skip{"--set", "resilience.spike_action=skip", "--inject", "spike@step=10"};
  ASSERT_EQ(train("one", skip).status, 0);
  ASSERT_EQ(train("two", {"--inject", "term@step=9"}).status, 0);
  const Outcome o = train("two", skip);
  ASSERT_EQ(o.status, 0);
  EXPECT_NE(o.err.find("step 10 is skipped: loss 1005"), std::string::npos) << o.err;
  expect_same("one", "two");
}

TEST_F(Resume, KilledInAnyStepOrSave) {
  ASSERT_EQ(train("whole").status, 0);
  int n = 0;
  for (const char* fault : {"kill@step=1", "kill@step=5", "kill@save=1", "kill@save=9", "kill@save=20"}) {
    const std::string folder = "killed" + std::to_string(n++);
    EXPECT_EQ(train(folder, {"--inject", fault}).status, -1) << fault;
    const Outcome o = train(folder);
    ASSERT_EQ(o.status, 0) << fault << o.err;
    expect_same("whole", folder);
  }
}

TEST_F(Resume, ASignalDuringASaveLetsItEnd) {
  ASSERT_EQ(train("whole").status, 0);
  Outcome o = train("run", {"--inject", "term@save=9", "--set", "checkpoint.async_save=false"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("stopped by SIGTERM after step 2 of 10"), std::string::npos) << o.err;
  EXPECT_EQ(steps("run"), std::vector<std::string>{"step_00000002"});
  o = train("run");
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("goes on behind step 2"), std::string::npos) << o.err;
  expect_same("whole", "run");
}

TEST_F(Resume, DamagedCheckpointIsNamedSetAsideAndPassedOver) {
  ASSERT_EQ(train("whole").status, 0);
  ASSERT_EQ(train("flipped", {"--inject", "bitflip@checkpoint=6", "--inject", "term@step=6"}).status, 0);
  const Outcome o = train("flipped");
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("step_00000006"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("goes on behind step 4"), std::string::npos) << o.err;
  expect_same("whole", "flipped");
  EXPECT_TRUE(fs::exists(place.path("flipped/checkpoints/step_00000006.damaged")));
}

TEST_F(Resume, NeverStartsAnewOverDamageUnasked) {
  ASSERT_EQ(train("run", {"--inject", "bitflip@checkpoint=2", "--inject", "term@step=2"}).status, 0);
  EXPECT_EQ(train("run").status, 2);
  const Outcome refused = train("run");
  EXPECT_EQ(refused.status, 2) << "the second time, with the damaged folder set aside, as well";
  EXPECT_NE(
      refused.err.find("strata: run/checkpoints has no sound checkpoint left; put one back, or start anew "
                       "by --overwrite\n"),
      std::string::npos)
      << refused.err;
  EXPECT_EQ(train("run", {"--overwrite"}).status, 0);
}

TEST_F(Resume, FullDiskLosesNothing) {
  for (const char* in_background : {"true", "false"}) {
    const Outcome o = train("full", {"--inject", "full@save=5000", "--set",
                                     std::string("checkpoint.async_save=") + in_background});
    EXPECT_EQ(o.status, 1) << o.err;
    EXPECT_NE(o.err.find("the run goes on"), std::string::npos) << o.err;
    EXPECT_NE(o.err.find("step 10/10"), std::string::npos) << o.err;
  }
  EXPECT_TRUE(steps("full").empty());
  ASSERT_EQ(train("full").status, 0);
  ASSERT_EQ(train("whole").status, 0);
  expect_same("whole", "full");
}

TEST_F(Resume, SkippedStepChangesNothingAndItsBatchIsRecorded) {
  const Outcome o = train("run", {"--inject", "nan@step=3", "--set", "training.train_iters=3", "--set",
                                  "checkpoint.save_interval=1"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("step 3 is skipped: loss "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find(", grad norm nan; its batch is in "), std::string::npos) << o.err;
  EXPECT_EQ(state("run", 2)[0], state("run", 3)[0]);
  EXPECT_EQ(state("run", 2)[1], state("run", 3)[1]);
  EXPECT_TRUE(fs::exists(place.path("run/skipped/step_00000003.safetensors")));
  EXPECT_EQ(metrics("run").at(2).at("grad norm"), "nan");
  EXPECT_EQ(place
                .strata({"trace", "--config", "run/config.json", "--weights",
                         "run/checkpoints/step_00000003/model.safetensors", "--batch",
                         "run/skipped/step_00000003.safetensors", "--out", "seen.safetensors"})
                .status,
            0);
}

TEST_F(Resume, TooManySkippedInARowStopTheRun) {
  const std::vector<std::string> faults{
      "--inject", "nan@step=4", "--inject", "nan@step=5",
      "--inject", "nan@step=6", "--set",    "resilience.max_consecutive_skips=3"};
  const Outcome o = train("run", faults);
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("strata: step 6: 3 steps in a row were skipped"), std::string::npos) << o.err;
  const Outcome one = train("stop", {"--inject", "nan@step=2", "--set", "resilience.nan=stop"});
  EXPECT_EQ(one.status, 1);
  EXPECT_NE(one.err.find("strata: step 2: loss "), std::string::npos) << one.err;
}

TEST_F(Resume, SpikesAreLoggedOrSkipped) {
  const Outcome logged = train("logged", {"--inject", "spike@step=6"});
  ASSERT_EQ(logged.status, 0) << logged.err;
  EXPECT_TRUE(std::regex_search(logged.err, std::regex("warning: step 6: loss 1005\\.\\d+ is \\d+\\.\\d "
                                                       "standard deviations above the last 4")))
      << logged.err;
  const Outcome skipped =
      train("skipped", {"--inject", "spike@step=6", "--set", "resilience.spike_action=skip"});
  ASSERT_EQ(skipped.status, 0) << skipped.err;
  EXPECT_NE(skipped.err.find("step 6 is skipped: loss 1005"), std::string::npos) << skipped.err;
  EXPECT_NE(state("logged", 10)[0], state("skipped", 10)[0]);
}

TEST_F(Resume, ChangedHyperParametersAreListedAndRefused) {
  ASSERT_EQ(train("run", {"--inject", "term@step=4"}).status, 0);
  const std::vector<std::string> changed{"--set", "optimizer.lr=0.001", "--set",
                                         "lr_schedule.lr_warmup_iters=1"};
  const Outcome refused = train("run", changed);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(
      refused.err,
      "strata: run/checkpoints/step_00000004/config.json differs from this configuration: optimizer.lr "
      "0.003 -> 0.001, lr_schedule.lr_warmup_iters 2 -> 1; change it back, go on with the new values by "
      "--override, or start anew by --overwrite\n");
  std::vector<std::string> allowed = changed;
  allowed.push_back("--override");
  const Outcome o = train("run", allowed);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("optimizer.lr 0.003 -> 0.001"), std::string::npos) << o.err;
}

// Steps of another size would end a run at another token, or pass a source's limit, without a word.
TEST_F(Resume, StepsOfAnotherSizeDoNotGoWithLimitsInTokens) {
  const Words by_tokens{"--set", "training.train_iters=null", "--set", "training.train_tokens=1280"};
  const Words once{"--set", R"(data.train=[{"path": "text", "max_epochs": 1000}])"};
  const std::string rule = " is planned from the beginning of a run with steps of one size; ";
  const std::pair<Words, std::string> limits[] = {
      {by_tokens, "training.train_tokens" + rule + "say training.train_iters instead"},
      {once, "max_epochs of data.train \"text\"" + rule + "leave it out"}};
  for (const auto& [limit, why] : limits) {
    Words words = limit;
    words.insert(words.end(), {"--inject", "term@step=4"});
    ASSERT_EQ(train("run", words).status, 0);
    words = limit;
    words.insert(words.end(), {"--set", "training.global_batch_size=8", "--override"});
    const Outcome o = train("run", words);
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.err,
              "strata: run/checkpoints/step_00000004/config.json was made in steps of 4 x 32 tokens, now "
              "they are 8 x 32 tokens: " +
                  why + "\n");
    ASSERT_EQ(train("run", limit).status, 0);
    std::filesystem::remove_all(place.path("run"));
  }
}

TEST_F(Resume, WhatChangesNoNumberMayChange) {
  ASSERT_EQ(train("whole").status, 0);
  ASSERT_EQ(train("run", {"--inject", "term@step=4"}).status, 0);
  const Outcome o = train("run", {"--set", "logging.log_interval=3", "--set", "recompute.granularity=full",
                                  "--set", "backend.threads=1", "--set", "checkpoint.async_save=false",
                                  "--set", "optimizer.use_distributed_optimizer=false"});
  ASSERT_EQ(o.status, 0) << o.err;
  expect_same("whole", "run");
}

TEST_F(Resume, ChangedDataIsRefusedByItsFingerprint) {
  ASSERT_EQ(train("run", {"--inject", "term@step=4"}).status, 0);
  std::string text = sample_text(900);
  text[text.size() / 2] ^= 1;
  place.write("text.txt", text);
  ASSERT_EQ(place.strata({"prepare", "text.txt", "--output", "text", "--overwrite"}).status, 0);
  const Outcome o = train("run");
  EXPECT_EQ(o.status, 2);
  EXPECT_TRUE(
      std::regex_search(o.err, std::regex("fingerprint of the training data [0-9a-f]{32} -> [0-9a-f]{32};")))
      << o.err;
}

TEST_F(Resume, SameDataElsewhereIsTheSameData) {
  ASSERT_EQ(train("whole").status, 0);
  ASSERT_EQ(train("run", {"--inject", "term@step=4"}).status, 0);
  fs::rename(place.path("text.bin"), place.path("moved.bin"));
  fs::rename(place.path("text.idx"), place.path("moved.idx"));
  const Outcome o = train("run", {"--set", "data.train=[{\"path\":\"moved\"}]"});
  ASSERT_EQ(o.status, 0) << o.err;
  expect_same("whole", "run");
}

TEST_F(Resume, OneProcessAtATimeWorksInAFolder) {
  ASSERT_EQ(train("run").status, 0);
  const int held = open(place.path("run/lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  const Outcome o = train("run");
  close(held);
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err,
            "strata: run is in use by another run that has not ended; choose another run.name or "
            "run.output_dir, or stop that run\n");
}

TEST_F(Resume, FinishedRunSaysSo) {
  ASSERT_EQ(train("run").status, 0);
  const auto before = metrics("run");
  const Outcome o = train("run");
  EXPECT_EQ(o.status, 0);
  EXPECT_NE(o.err.find("nothing is left to do: 10 steps done, saved in run/checkpoints"), std::string::npos)
      << o.err;
  EXPECT_EQ(metrics("run"), before);
}

TEST_F(Resume, OverwriteStartsAnew) {
  ASSERT_EQ(train("run").status, 0);
  ASSERT_EQ(train("run", {"--overwrite", "--set", "training.train_iters=4", "--set", "run.seed=2"}).status,
            0);
  EXPECT_EQ(steps("run"), (std::vector<std::string>{"step_00000002", "step_00000004"}));
}

TEST_F(Resume, TimeLimitSavesAndEnds) {
  const Outcome late = train("late", {"--set", "resilience.exit_duration_in_mins=1e-7"});
  EXPECT_EQ(late.status, 0) << late.err;
  EXPECT_NE(late.err.find("stopped by resilience.exit_duration_in_mins 1e-07 after step 0"),
            std::string::npos)
      << late.err;
  ASSERT_EQ(train("late").status, 0);
  ASSERT_EQ(train("whole").status, 0);
  expect_same("whole", "late");
}

}  // namespace
}  // namespace strata::test
