// `strata train` on the tiny configuration.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Train : public ::testing::Test {
 protected:
  Train() {
    place.write("text.txt", sample_text(3000));
    place.write("other.txt", sample_text(200));
    for (const std::string name : {"text", "other"})
      EXPECT_EQ(place.strata({"prepare", name + ".txt", "--output", name}).status, 0);
  }

  Outcome train(std::vector<std::string> more) const {
    std::vector<std::string> words{"train", tiny_config(), "--set", R"(data.train=[{"path": "text"}])"};
    words.insert(words.end(), more.begin(), more.end());
    return place.strata(words);
  }

  std::vector<Json> metrics(const std::string& folder) const {
    std::istringstream lines(place.read(folder + "/metrics.jsonl"));
    std::vector<Json> all;
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }

  // Everything but the time.
  std::vector<Json> numbers(const std::string& folder) const {
    std::vector<Json> all = metrics(folder);
    for (Json& line : all)
      for (const char* timed :
           {"tokens per second", "elapsed time per iteration (ms)", "throughput (TFLOP/s)", "share of peak"})
        line.erase(timed);
    return all;
  }

  Workplace place;
};

TEST_F(Train, WritesMetricsInMegatronsWords) {
  const Outcome o = train({"--set", "training.train_iters=3"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out, "");
  const std::vector<Json> lines = metrics("runs/tiny");
  ASSERT_EQ(lines.size(), 3u);
  const std::set<std::string> each{"iteration",
                                   "lm loss",
                                   "load_balancing_loss",
                                   "mtp loss",
                                   "grad norm",
                                   "learning rate",
                                   "tokens",
                                   "consumed samples",
                                   "tokens per second",
                                   "elapsed time per iteration (ms)",
                                   "throughput (TFLOP/s)",
                                   "share of peak"};
  std::set<std::string> closer = each;
  for (const std::string layer : {"", " layer 1"})
    for (const std::string key :
         {"expert load max/mean", "expert load entropy", "dead experts", "router bias range"})
      closer.insert(key + layer);
  for (const std::string target : {"", " target 2", " target 3", " target 4", " target 5"}) {
    closer.insert("depth attention entropy" + target);
    for (const std::string stream : {"1", "2"}) closer.insert("gate mean stream " + stream + target);
  }
  for (const std::string sublayer : {"1", "2", "3", "4"}) closer.insert("output norm sublayer " + sublayer);
  for (const std::string purpose :
       {"", " parameters", " gradients", " optimizer state", " activations", " data"})
    closer.insert("mem-max-allocated-bytes" + purpose);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::set<std::string> keys;
    for (const auto& [key, value] : lines[i].items()) keys.insert(key);
    EXPECT_EQ(keys, i == 1 ? each : closer) << "a closer look at the first step and the last";
    EXPECT_EQ(lines[i].at("iteration"), i + 1);
    EXPECT_EQ(lines[i].at("tokens"), (i + 1) * 4 * 32);
    EXPECT_EQ(lines[i].at("consumed samples"), (i + 1) * 4);
    EXPECT_NEAR(lines[i].at("tokens per second").get<double>() *
                    lines[i].at("elapsed time per iteration (ms)").get<double>(),
                4 * 32 * 1e3, 1);
  }
  EXPECT_NEAR(lines[0].at("depth attention entropy").get<double>(), 1, 1e-6) << "queries begin at zero";
  EXPECT_NEAR(lines[0].at("lm loss").get<double>(), std::log(264.0), 0.05)
      << "an untrained model knows nothing";
}

TEST_F(Train, LossFallsAndValidationComesAtIntervalsAndAtTheEnd) {
  const Outcome o =
      train({"--set", "training.train_iters=30", "--set", R"(data.validation={"other": {"path": "other"}})",
             "--set", "training.eval_interval=12", "--set", "lr_schedule.lr_decay_style=constant"});
  ASSERT_EQ(o.status, 0) << o.err;
  std::vector<double> losses, validation;
  std::vector<int> evaluated;
  for (const Json& line : metrics("runs/tiny")) {
    if (line.contains("lm loss")) losses.push_back(line.at("lm loss"));
    if (!line.contains("lm loss validation other")) continue;
    evaluated.push_back(line.at("iteration"));
    validation.push_back(line.at("lm loss validation other"));
    EXPECT_NEAR(line.at("lm loss validation other PPL").get<double>(), std::exp(validation.back()), 1e-9);
  }
  ASSERT_EQ(losses.size(), 30u);
  EXPECT_LT(losses.back(), losses.front() - 1.0);
  EXPECT_EQ(evaluated, (std::vector<int>{12, 24, 30}));
  EXPECT_LT(validation.back(), validation.front() - 0.3);
}

TEST_F(Train, SameSeedGivesTheSameBitsAtAnyThreadCount) {
  const auto run = [&](const std::string& folder, const std::string& setting) {
    const Outcome o = train({"--set", "run.output_dir=" + folder, "--set", "training.train_iters=6", "--set",
                             R"(data.validation={"other": {"path": "other"}})", "--set", setting});
    ASSERT_EQ(o.status, 0) << o.err;
  };
  run("a", "backend.threads=1");
  run("b", "backend.threads=1");
  run("c", "backend.threads=3");
  run("d", "run.seed=99");
  EXPECT_EQ(numbers("a"), numbers("b"));
  EXPECT_EQ(numbers("a"), numbers("c"));
  EXPECT_NE(numbers("a"), numbers("d"));
}

TEST_F(Train, WritesWhatItWasTold) {
  ASSERT_EQ(train({"--set", "training.train_iters=2", "--set", "optimizer.lr=0.01"}).status, 0);
  const Json origins = Json::parse(place.read("runs/tiny/origins.json"));
  EXPECT_EQ(origins.at("optimizer.lr"), "command line");
  EXPECT_EQ(origins.at("model.hidden_size"), "file");
  EXPECT_EQ(origins.at("optimizer.beta1"), "default");
  const Outcome again = place.strata({"config", "runs/tiny/config.json", "--json"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, place.read("runs/tiny/config.json"));
}

TEST_F(Train, SaysWhatItDoes) {
  const Outcome o = train({"--set", "training.train_iters=4", "--set", "logging.log_interval=3", "--set",
                           "backend.threads=3", "--verbose"});
  const std::string log = without_times(o.err);
  EXPECT_NE(log.find("info: run tiny in runs/tiny: cpu, 3 threads, seed 1234\n"), std::string::npos) << log;
  EXPECT_NE(log.find("info: model: 0.01M parameters, residual msar, float32\n"), std::string::npos) << log;
  EXPECT_NE(log.find(" tokens, 1 document; 16 samples (100.00%), 0.04 epochs planned\n"), std::string::npos)
      << log;
  EXPECT_NE(log.find(" tokens; 4 steps of 4 x 32 tokens, 512 tokens in all\n"), std::string::npos) << log;
  EXPECT_NE(log.find("info: step 1/4  lm loss 5."), std::string::npos) << log;
  EXPECT_EQ(log.find("info: step 2/4"), std::string::npos) << log;
  EXPECT_NE(log.find("info: step 3/4"), std::string::npos) << log;
  EXPECT_NE(log.find("info: step 4/4"), std::string::npos) << log;
  const std::string peak = "info: peak memory: ", mb = log.substr(log.find(peak) + peak.size(), 6);
  EXPECT_TRUE(mb.ends_with(" MB")) << log;
  EXPECT_NE(log.find("info: memory: planned peak " + mb + "\n"), std::string::npos) << log;
  EXPECT_NE(log.find("debug: read back 4 times: losses\n"), std::string::npos) << log;
}

// Else a file of the run gets the number of standard error, and the log's lines.
TEST_F(Train, ClosedStandardErrorHarmsNoFile) {
  const Outcome o = place.command({"sh", "-c", "exec \"$@\" 2>&-", "sh", STRATA_BINARY, "train",
                                   tiny_config(), "--set", R"(data.train=[{"path": "text"}])", "--set",
                                   "checkpoint.save_interval=1", "--set", "training.train_iters=3"});
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(place.read("runs/tiny/lock"), "");
  EXPECT_EQ(metrics("runs/tiny").size(), 3u);
}

TEST_F(Train, AFolderThatTakesNoCheckpointsShowsBeforeTheFirstStep) {
  const Outcome o = train({"--set", "checkpoint.save=text.txt/ck"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err.find("step 1/"), std::string::npos) << o.err;
}

TEST_F(Train, SaysWhenAStopLeavesTheLastEvaluation) {
  const Words run{"--set", "training.train_iters=2", "--set", R"(data.validation={"o": {"path": "other"}})"};
  Words stopped = run;
  stopped.insert(stopped.end(), {"--inject", "term@step=2"});
  const std::string left = "; the last evaluation is left to the same command";
  EXPECT_NE(train(stopped).err.find("2 steps done, saved in runs/tiny/checkpoints" + left + "\n"),
            std::string::npos);
  const Outcome o = train(run);
  EXPECT_NE(o.err.find("step 2  lm loss validation o "), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find(left), std::string::npos) << o.err;
}

TEST_F(Train, StopsAtALossThatIsNoNumber) {
  const Outcome o = train({"--set", "optimizer.lr=1e38", "--set", "lr_schedule.lr_warmup_iters=0", "--set",
                           "optimizer.weight_decay=1e38", "--set", "resilience.nan=stop"});
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("strata: step 2: loss "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("; the run stops (resilience.nan)\n"), std::string::npos) << o.err;
  const std::vector<Json> lines = metrics("runs/tiny");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1].at("lm loss").is_string()) << lines[1];
}

TEST_F(Train, TellsWhereTheTimeOfNamedStepsWent) {
  const Outcome o = train({"--set", "training.train_iters=4", "--set", "profile.steps=[2, 9]"});
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("info: where the time of steps 2 to 4 went, by rank:\n"), std::string::npos) << o.err;
  const Json summary = Json::parse(place.read("runs/tiny/profile/summary.json"));
  EXPECT_EQ(summary.at("steps"), Json({2, 4}));
  std::set<std::string> steps;
  const Json timeline = Json::parse(place.read("runs/tiny/profile/timeline.json"));
  for (const Json& e : timeline.at("traceEvents"))
    if (e.value("cat", "") == "step") steps.insert(e.at("name"));
  EXPECT_EQ(steps, (std::set<std::string>{"step 2", "step 3", "step 4"}));
  ASSERT_EQ(train({"--set", "training.train_iters=4", "--set", "run.name=plain"}).status, 0);
  EXPECT_EQ(numbers("runs/tiny"), numbers("runs/plain")) << "watching changes nothing";
}

}  // namespace
}  // namespace strata::test
