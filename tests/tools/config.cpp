// `strata config` and `strata plan`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "strata_binary.h"

namespace strata::test {
namespace {

const std::string kSmall = STRATA_SOURCE_DIR "/configs/small.json";

// The line of a table that begins with this word, with single spaces.
std::string line_of(const std::string& table, const std::string& word) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string text;
    for (std::string w; words >> w;) text += (text.empty() ? "" : " ") + w;
    if (text.starts_with(word + " ")) return text;
  }
  return "";
}

TEST(ConfigCommand, PrintsEachValueWithItsOrigin) {
  const Outcome o =
      Workplace().strata({"config", tiny_config(), "--set", "optimizer.lr=1e-3", "--set", "run.name=x y"});
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(line_of(o.out, "optimizer.lr"), "optimizer.lr 0.001 command line");
  EXPECT_EQ(line_of(o.out, "run.name"), "run.name \"x y\" command line");
  EXPECT_EQ(line_of(o.out, "model.hidden_size"), "model.hidden_size 16 file");
  EXPECT_EQ(line_of(o.out, "model.residual.type"), "model.residual.type \"msar\" file");
  EXPECT_EQ(line_of(o.out, "optimizer.beta2"), "optimizer.beta2 0.95 default");
}

TEST(ConfigCommand, JsonLoadsBackToItself) {
  const Workplace place;
  const Outcome first = place.strata({"config", tiny_config(), "--json", "--set", "training.seq_length=40"});
  EXPECT_EQ(first.status, 0);
  EXPECT_EQ(nlohmann::json::parse(first.out).at("training").at("seq_length"), 40);
  place.write("again.json", first.out);
  EXPECT_EQ(place.strata({"config", "again.json", "--json"}).out, first.out);
}

TEST(ConfigCommand, ReferenceListsEveryKeyOfTheResolvedConfig) {
  const Workplace place;
  const Outcome reference = place.strata({"config", "--reference"});
  EXPECT_EQ(reference.status, 0);
  std::istringstream lines(place.strata({"config", tiny_config()}).out);
  int keys = 0;
  for (std::string path; lines >> path; ++keys) {
    EXPECT_NE(line_of(reference.out, path), "") << path;
    std::string rest;
    std::getline(lines, rest);
  }
  EXPECT_GT(keys, 50);
}

TEST(Plan, CountsTheSmallModel) {
  const Outcome o = Workplace().strata({"plan", kSmall});
  EXPECT_EQ(o.status, 0);
  EXPECT_EQ(line_of(o.out, "parameters"), "parameters 104.65M 104654336");
  EXPECT_EQ(line_of(o.out, "active"), "active per token 27.58M 27584000 4 of 32 routed experts");
  EXPECT_TRUE(line_of(o.out, "vanilla").starts_with("vanilla 104.65M 27.58M 0 ")) << o.out;
  EXPECT_TRUE(line_of(o.out, "vanilla").ends_with(" 1.00 this one")) << o.out;
}

// Every number from the sizes in the file.
TEST(Plan, GroupsAndVariantsAddUp) {
  const auto j = nlohmann::json::parse(Workplace().strata({"plan", kSmall, "--json"}).out);
  const std::int64_t d = 512, layers = 8, moe = 7, expert = 3 * d * 256, sublayers = 2 * layers;
  const auto& g = j.at("groups");
  EXPECT_EQ(g.at("embedding"), 8192 * d);
  EXPECT_EQ(g.at("head"), 8192 * d);
  EXPECT_EQ(g.at("routed experts"), moe * 32 * expert);
  EXPECT_EQ(g.at("shared experts"), moe * expert);
  EXPECT_EQ(g.at("router"), moe * 32 * d);
  EXPECT_EQ(g.at("dense feed-forward"), 3 * d * 1024);
  EXPECT_EQ(g.at("attention"), layers * (8 * 48 * d + (128 + 16) * d + 8 * 64 * 128 + d * 8 * 32));
  EXPECT_EQ(g.at("norms"), layers * (2 * d + 128) + d);
  EXPECT_EQ(g.at("residual"), 0);
  EXPECT_EQ(g.at("multi-token prediction"), 0);
  std::int64_t total = 0;
  for (const auto& [name, n] : g.items()) total += n.get<std::int64_t>();
  EXPECT_EQ(j.at("parameters"), total);
  EXPECT_EQ(j.at("active"), total - moe * 28 * expert);

  const auto& v = j.at("variants");
  const std::int64_t m = 4, targets = sublayers;  // all but the first sub-layer, and the head
  EXPECT_EQ(v.at("attnres").at("residual"), targets * 2 * d);
  EXPECT_EQ(v.at("msar").at("residual"), targets * (m * d + d + m * m * d + 1 + m) + 9 * (4 + 8 + 12) * d);
  const std::int64_t mhc = sublayers * ((m * m + 2 * m) * m * d + 3 + 2 * m + m * m) + m * m * d + 1 + m;
  EXPECT_EQ(v.at("mhc").at("residual"), mhc);
  EXPECT_EQ(v.at("attnres_mhc").at("residual"), mhc + (sublayers + 1) * (m * d + d));
  for (const auto& [name, n] : v.items()) {
    EXPECT_EQ(n.at("parameters"), total + n.at("residual").get<std::int64_t>()) << name;
    EXPECT_EQ(n.at("active"), total - moe * 28 * expert + n.at("residual").get<std::int64_t>()) << name;
  }
}

TEST(Plan, TellsWhatARankOfSeveralHoldsAndSends) {
  const std::vector<std::string> words{"plan",    tiny_config(),
                                       "--set",   "parallel.pipeline_model_parallel_size=2",
                                       "--set",   "parallel.expert_model_parallel_size=2",
                                       "--set",   "training.micro_batch_size=1",
                                       "--world", "4"};
  const Outcome text = Workplace().strata(words);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("\n4 ranks: pipeline 2 x data 2, experts over 2; schedule 1f1b, 2 micro-batches on "
                          "each, bubble 33.3%\n"),
            std::string::npos)
      << text.out;
  auto with_json = words;
  with_json.push_back("--json");
  const auto all = nlohmann::json::parse(Workplace().strata(with_json).out);
  const auto& j = all.at("layout");
  ASSERT_EQ(j.at("pipeline_ranks").size(), 2u);
  EXPECT_EQ(j.at("pipeline_ranks")[0].at("stages"),
            nlohmann::json::parse(R"([{"first": 0, "last": 1, "embedding": true, "head": false}])"));
  EXPECT_EQ(j.at("pipeline_ranks")[1].at("in_flight"), 1);
  const auto& second = j.at("pipeline_ranks")[1];
  EXPECT_GT(second.at("sent_per_step").at("all_to_all").at("bytes"), 0);
  EXPECT_GT(second.at("all_tokens_to_this_rank").at("peak_memory_bytes"),
            second.at("peak_memory_bytes").at("total"));
  const std::int64_t first_peak = j.at("pipeline_ranks")[0].at("peak_memory_bytes").at("total"),
                     second_peak = second.at("peak_memory_bytes").at("total"),
                     most = std::max(first_peak, second_peak);
  EXPECT_EQ(all.at("recompute").at("none").at("memory_bytes").at("peak").at("total"), most);
  EXPECT_EQ(all.at("variants").at("msar").at("peak_memory_bytes"), most);
  EXPECT_NE(all.at("memory_bytes").at("peak").at("total"), most) << "of one rank";
  // b_0 and the block that ends there, in float32.
  EXPECT_EQ(j.at("cuts"), nlohmann::json::parse(R"([{"stage": 1, "from": 0, "to": 1, "forward_bytes": 4096,
                                                     "backward_bytes": 4096}])"));
  EXPECT_FALSE(
      nlohmann::json::parse(Workplace().strata({"plan", tiny_config(), "--json"}).out).contains("layout"));
  const Outcome wrong = Workplace().strata(
      {"plan", tiny_config(), "--world", "3", "--set", "parallel.pipeline_model_parallel_size=2"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.err,
            "strata: plan: --world is 3, allowed is a multiple of 2: parallel.pipeline_model_parallel_size 2 "
            "times expert_model_parallel_size 1\n");
}

// The same numbers as of one layout alone.
TEST(Plan, PutsLayoutsSideBySide) {
  const std::string list = "pp=2;pp=2,ep=2,dp=2,mbs=1,schedule=zero_bubble;dp=4096";
  const Outcome text = Workplace().strata({"plan", tiny_config(), "--layouts", list});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 1 + 3 + 3) << text.out;
  auto j =
      nlohmann::json::parse(Workplace().strata({"plan", tiny_config(), "--layouts", list, "--json"}).out);
  ASSERT_EQ(j.at("layouts").size(), 3u);
  EXPECT_EQ(j.at("layouts")[2].at("ranks"), 4096);
  auto second = j.at("layouts")[1];
  EXPECT_EQ(second.at("layout"), "pp=2,ep=2,dp=2,mbs=1,schedule=zero_bubble");
  second.erase("layout");
  const Outcome alone = Workplace().strata(
      {"plan", tiny_config(), "--world", "4", "--json", "--set", "parallel.pipeline_model_parallel_size=2",
       "--set", "parallel.expert_model_parallel_size=2", "--set", "parallel.pipeline_schedule=zero_bubble",
       "--set", "training.micro_batch_size=1"});
  EXPECT_EQ(second, nlohmann::json::parse(alone.out).at("layout"));
  const Outcome wrong = Workplace().strata({"plan", tiny_config(), "--layouts", "pp=2;ep=3"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("--layouts \"ep=3\": "), std::string::npos) << wrong.err;
}

TEST(Plan, KeepsTheConfiguredVariantAndCountsMultiTokenPrediction) {
  const auto j = nlohmann::json::parse(
      Workplace().strata({"plan", tiny_config(), "--json", "--set", "model.num_nextn_predict_layers=1"}).out);
  EXPECT_EQ(j.at("variants").at("msar").at("parameters"), j.at("parameters"));
  EXPECT_EQ(j.at("groups").at("head"), 0) << "the head is tied to the embedding";
  // Four norms and two of the block (d 16), latent norm 8, eh_proj, attention, router, four experts and a
  // shared one.
  EXPECT_EQ(
      j.at("groups").at("multi-token prediction"),
      5 * 16 + 8 + 2 * 16 * 16 + (2 * 12 * 16 + 12 * 16 + 2 * 16 * 8 + 16 * 16) + 4 * 16 + 5 * 3 * 16 * 8);
}

}  // namespace
}  // namespace strata::test
