// That the numbers of a run are the right ones: which batches it takes, what it evaluates, what it calls
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;

class TrainNumbers : public ::testing::Test {
 protected:
  TrainNumbers() { prepare("text", sample_text(3000)); }

  // Tokens without an end of document: one a byte.
  void prepare(const std::string& name, const std::string& text) const {
    place.write(name + ".txt", text);
    const Outcome o = place.strata({"prepare", name + ".txt", "--output", name, "--no-append-eod"});
    EXPECT_EQ(o.status, 0) << o.err;
  }
  static std::string validation(const std::string& name) {
    return "data.validation={\"held_out\":{\"path\":\"" + name + "\"}}";
  }
  // The metrics of a run, without its times.
  std::vector<Json> train(const std::string& folder, const std::vector<std::string>& settings,
                          const std::string& data = "text") const {
    std::vector<std::string> words{"train", tiny_config(),
                                   "--set", "data.train=[{\"path\":\"" + data + "\"}]",
                                   "--set", "run.output_dir=" + folder};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const Outcome o = place.strata(words);
    EXPECT_EQ(o.status, 0) << o.err;
    std::istringstream lines(place.read(folder + "/metrics.jsonl"));
    std::vector<Json> all;
    for (std::string line; std::getline(lines, line);) {
      all.push_back(Json::parse(line));
      for (const char* timed :
           {"tokens per second", "elapsed time per iteration (ms)", "throughput (TFLOP/s)", "share of peak"})
        all.back().erase(timed);
    }
    return all;
  }

  Workplace place;
};

TEST_F(TrainNumbers, EveryLossHasItsOwnWord) {
  const Json line = train("run", {"training.train_iters=2", "model.num_nextn_predict_layers=1",
                                  "model.seq_aux_loss_coef=0.01"})
                        .at(0);
  EXPECT_NEAR(line.at("mtp loss").get<double>(), std::log(264.0), 0.05);
  // Two routed layers, each coefficient * sum of f P, which is 1 where experts are even.
  EXPECT_NEAR(line.at("load_balancing_loss").get<double>(), 2 * 0.01, 0.005);
}

TEST_F(TrainNumbers, LearningRateFollowsTheSchedule) {
  std::vector<double> rates;
  for (const Json& line : train("run", {"training.train_iters=4"})) rates.push_back(line.at("learning rate"));
  ASSERT_EQ(rates.size(), 4u);
  EXPECT_DOUBLE_EQ(rates[0], 0.0015);
  EXPECT_DOUBLE_EQ(rates[1], 0.003) << "the second and last step of warm-up";
  EXPECT_DOUBLE_EQ(rates[2], 0.0015) << "half of the cosine";
  EXPECT_NEAR(rates[3], 0, 1e-18);
}

// Two steps of four windows read a text of eight once: their mean loss is the loss over the whole text.
TEST_F(TrainNumbers, AnEpochReadsEveryWindowOnce) {
  prepare("eight", sample_text(100).substr(0, 8 * 32 + 1));
  const std::vector<Json> lines = train("run",
                                        {validation("eight"), "training.train_iters=2", "optimizer.lr=0",
                                         "router.bias_update_speed=0", "precision.compute=float64"},
                                        "eight");
  ASSERT_EQ(lines.size(), 3u);
  const double first = lines[0].at("lm loss"), second = lines[1].at("lm loss");
  EXPECT_NE(first, second);
  EXPECT_NEAR((first + second) / 2, lines[2].at("lm loss validation held_out").get<double>(), 1e-12);
}

TEST_F(TrainNumbers, ValidationReadsTheFirstWindowsOfItsText) {
  const std::string text = sample_text(200), start = text.substr(0, 2 * 4 * 32 + 1);
  ASSERT_GT(text.size(), 4u * 4 * 32);
  prepare("long", text);
  prepare("start", start);
  prepare("changed", start.substr(0, start.size() - 2) + "zz");
  const auto losses = [&](const std::string& set) {
    return train(set + "_run", {"training.train_iters=2", "training.eval_iters=2", validation(set)});
  };
  EXPECT_EQ(losses("long"), losses("start"));
  EXPECT_NE(losses("long"), losses("changed")) << "the last of eval_iters batches counts";
}

TEST_F(TrainNumbers, RouterBiasesMoveAtTheConfiguredSpeed) {
  const auto losses = [&](const std::string& speed) {
    std::vector<Json> all;
    for (const Json& line : train("run" + speed, {"training.train_iters=2", "optimizer.lr=0",
                                                  "router.bias_update_speed=" + speed}))
      all.push_back(line.at("lm loss"));
    return all;
  };
  const std::vector<Json> still = losses("0"), moved = losses("0.5");
  EXPECT_EQ(moved.at(0), still.at(0));
  EXPECT_NE(moved.at(1), still.at(1)) << "the weights stay, the choice of experts does not";
}

// Neither the weights nor the experts' loads, which move the router's biases.
TEST_F(TrainNumbers, ValidationLeavesTrainingAlone) {
  prepare("z", std::string(2000, 'z'));  // other experts than the text's
  const auto training = [&](const std::string& folder, std::vector<std::string> more) {
    more.push_back("training.train_iters=8");
    std::vector<Json> all = train(folder, more);
    std::erase_if(all, [](const Json& line) { return !line.contains("lm loss"); });
    return all;
  };
  EXPECT_EQ(training("a", {}), training("b", {validation("z"), "training.eval_interval=1"}));
}

}  // namespace
}  // namespace strata::test
