// `strata eval`, and what a run says of its memory and speed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

constexpr const char* kSets = R"(data.validation={"other": {"path": "other"}, "more": {"path": "more"}})";

class Eval : public ::testing::Test {
 protected:
  Eval() {
    place.write("text.txt", sample_text(1000));
    place.write("other.txt", sample_text(150));
    place.write("more.jsonl", "{\"text\": \"the cat sat\"}\n{\"text\": \"a dog ran uphill\"}\n");
    for (const std::string file : {"text.txt", "other.txt", "more.jsonl"})
      EXPECT_EQ(place.strata({"prepare", file, "--output", file.substr(0, file.find('.'))}).status, 0);
  }

  Outcome train(const Words& settings) const {
    Words words{"train", tiny_config()};
    for (const std::string setting : {R"(data.train=[{"path": "text"}])", kSets, "training.train_iters=3"})
      words.insert(words.end(), {"--set", setting});
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const Outcome o = place.strata(words);
    EXPECT_EQ(o.status, 0) << o.err;
    return o;
  }

  // Of the lines of metrics.jsonl that have it.
  std::vector<double> metric(const std::string& name, const std::string& folder = "runs/tiny") const {
    std::istringstream lines(place.read(folder + "/metrics.jsonl"));
    std::vector<double> all;
    for (std::string line; std::getline(lines, line);)
      if (const Json j = Json::parse(line); j.contains(name)) all.push_back(j.at(name));
    return all;
  }

  Json eval(Words words) const {
    words.insert(words.begin(), "eval");
    words.push_back("--json");
    const Outcome o = place.strata(words);
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out, nullptr, false);
  }

  Workplace place;
};

TEST_F(Eval, AgreesWithTheRunToTheLastDigit) {
  train({"training.eval_iters=100"});
  const Json all = eval({"--checkpoint", "runs/tiny"});
  const std::string text = place.read("other.txt");
  EXPECT_EQ(all.at("step"), 3);
  for (const std::string name : {"other", "more"}) {
    const Json& set = all.at("sets").at(name);
    EXPECT_EQ(set.at("loss"), metric("lm loss validation " + name).at(0)) << name;
    EXPECT_EQ(set.at("perplexity"), metric("lm loss validation " + name + " PPL").at(0)) << name;
    EXPECT_EQ(set.at("bits_per_byte"), metric("bits per byte validation " + name).at(0)) << name;
    const double loss = set.at("loss"), labels = set.at("labels"), bytes = set.at("bytes");
    EXPECT_EQ(set.at("perplexity").get<double>(), std::exp(loss));
    EXPECT_NEAR(set.at("bits_per_byte").get<double>(), loss * labels / std::log(2.0) / bytes, 1e-12);
    EXPECT_EQ(set.at("windows"), set.at("windows_of_set"));
  }
  // Every token but the first is a label once, the end of the document is one of no bytes.
  const Json& other = all.at("sets").at("other");
  EXPECT_EQ(other.at("labels"), text.size());
  EXPECT_EQ(other.at("bytes"), text.size() - 1);
  EXPECT_EQ(other.at("windows"), (text.size() - 1) / 32 + 1);
  EXPECT_EQ(all.at("sets").at("more").at("labels"), 11 + 1 + 16 + 1 - 1);
}

TEST_F(Eval, ReadsTheSameModelWhereverItIs) {
  train({"training.eval_iters=1"});
  const Json run = eval({"--checkpoint", "runs/tiny", "--iters", "1"}).at("sets");
  EXPECT_EQ(run.at("other").at("loss"), metric("lm loss validation other").at(0));
  EXPECT_EQ(run.at("other").at("windows"), 4) << "one batch";
  const std::string step = "runs/tiny/checkpoints/step_00000003";
  EXPECT_EQ(eval({"--checkpoint", step, "--iters", "1"}).at("sets"), run);
  EXPECT_EQ(
      eval({"--config", "runs/tiny/config.json", "--weights", step + "/model.safetensors", "--iters", "1"})
          .at("sets"),
      run);
  EXPECT_EQ(place.strata({"checkpoint", "convert", "runs/tiny", "--to", "m"}).status, 0);
  EXPECT_EQ(
      eval({"--checkpoint", "m", "--data", "other=other", "--data", "more=more", "--iters", "1"}).at("sets"),
      run)
      << "an exported model knows the size of a batch";
  const Json mine =
      eval({"--checkpoint", "runs/tiny", "--data", "mine=other", "--data", "more", "--iters", "1"});
  EXPECT_EQ(mine.at("sets").size(), 2u);
  EXPECT_EQ(mine.at("sets").at("mine"), run.at("other"));
  EXPECT_EQ(mine.at("sets").at("more"), run.at("more"));
  EXPECT_NE(eval({"--checkpoint", "runs/tiny", "--iters", "2"}).at("sets").at("other").at("loss"),
            run.at("other").at("loss"));
}

TEST_F(Eval, SaysHowTokensAreCounted) {
  train({});
  const Words words{"eval", "--checkpoint", "runs/tiny", "--data", "more"};
  const std::string text = place.strata(words).out;
  EXPECT_EQ(text.find("runs/tiny/checkpoints/step_00000003 (checkpoint, step 3)\n"), 0u) << text;
  EXPECT_NE(text.find("bits per byte"), std::string::npos) << text;
  EXPECT_NE(text.find("\nmore "), std::string::npos) << text;
  EXPECT_NE(text.find("windows of 32 tokens; none begins with a token of its own"), std::string::npos)
      << text;
  Words masked = words;
  masked.insert(masked.end(), {"--set", "data.eod_mask_loss=true"});
  EXPECT_NE(place.strata(masked).out.find("first tokens of documents are no labels"), std::string::npos);
  masked.erase(masked.begin());
  EXPECT_EQ(eval(masked).at("sets").at("more").at("labels"), 11 + 1 + 16 + 1 - 1 - 1);
  const Json unknown = eval({"--checkpoint", "runs/tiny", "--data", "more", "--set", "data.tokenizer=null"})
                           .at("sets")
                           .at("more");
  EXPECT_TRUE(unknown.at("bits_per_byte").is_null());
  EXPECT_TRUE(unknown.at("bytes").is_null());
}

struct Wrong {
  Words arguments;
  std::string message;
};

TEST_F(Eval, RefusesWhatItCannotEvaluate) {
  train({"data.validation={}"});
  place.write("ids.bin", std::string("\x01\x00\x2c\x01\x02\x00", 6));  // 1, 300, 2
  const Wrong all[] = {
      {{}, "eval: --checkpoint, or --config and --weights, is required"},
      {{"--checkpoint", "none", "--data", "a=other"}, "none: no such folder"},
      {{"--config", tiny_config(), "--weights", "none.safetensors", "--data", "a=other"},
       "cannot read none.safetensors: no such file"},
      {{"--checkpoint", "runs/tiny"},
       "nothing to evaluate on: --data NAME=PREFIX, or data.validation, names token files"},
      {{"--checkpoint", "runs/tiny", "--data", "other"},
       "--data: \"other\" is no set of data.validation, which has none; NAME=PREFIX gives another one"},
      {{"--checkpoint", "runs/tiny", "--set", kSets, "--data", "oter"},
       "--data: \"oter\" is no set of data.validation, which has more, other; NAME=PREFIX gives another one"},
      {{"--checkpoint", "runs/tiny", "--data", "a="}, "--data: \"a=\" is not of the form NAME=PREFIX"},
      {{"--checkpoint", "runs/tiny", "--data", "a=other", "--data", "a=more"},
       "--data: there are two sets of the name \"a\""},
      {{"--checkpoint", "runs/tiny", "--data", "a b=other"},
       "validation has the name \"a b\", allowed are letters, digits, hyphens and underscores"},
      {{"--checkpoint", "runs/tiny", "--data", "a=none"},
       "data.validation.a.path: cannot read none: No such file or directory"},
      {{"--checkpoint", "runs/tiny", "--data", "a=ids.bin"},
       "ids.bin: token 1 is 300; ids are 0 to 263 (model.vocab_size)"},
      {{"--checkpoint", "runs/tiny", "--data", "a=other", "--iters", "0"},
       "eval: --iters: Value 0 not in range 1 to 1099511627776"},
  };
  for (const Wrong& w : all) {
    Words words{"eval"};
    words.insert(words.end(), w.arguments.begin(), w.arguments.end());
    const Outcome o = place.strata(words);
    EXPECT_EQ(o.status, 2) << w.message;
    EXPECT_EQ(o.err, "strata: " + w.message + "\n");
    EXPECT_EQ(o.out, "") << w.message;
  }
}

// The peaks of a run are those that `plan` names, and its speed is told as a share of what was measured.
TEST_F(Eval, RunsAreAsPlannedAndTellTheirSpeed) {
  const Outcome o = train({"run.output_dir=a"});
  const Json plan = Json::parse(place.strata({"plan", "a/config.json", "--json"}).out);
  EXPECT_EQ(plan.at("memory_bytes").at("peak").size(), 6u);
  for (const std::string purpose : {"parameters", "gradients", "optimizer state", "activations", "data"}) {
    const std::vector<double> metrics = metric("mem-max-allocated-bytes " + purpose, "a");
    ASSERT_FALSE(metrics.empty()) << purpose;
    EXPECT_EQ(metrics.back(), plan.at("memory_bytes").at("peak").at(purpose)) << purpose;
  }
  EXPECT_NE(o.err.find("; gemm peak "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("% of peak  ETA "), std::string::npos) << o.err;
  const double per_token = plan.at("flops_per_token").at("forward").at("total").get<double>() +
                           plan.at("flops_per_token").at("backward").at("total").get<double>();
  const std::vector<double> rate = metric("tokens per second", "a"),
                            flops = metric("throughput (TFLOP/s)", "a");
  ASSERT_EQ(flops.size(), 3u);
  EXPECT_NEAR(flops[2], rate[2] * per_token / 1e12, 1e-9 * flops[2]);

  const Outcome off = train({"run.output_dir=b", "logging.peak_flops=0"});
  EXPECT_EQ(off.err.find("peak  ETA"), std::string::npos) << off.err;
  EXPECT_TRUE(metric("share of peak", "b").empty());
  EXPECT_EQ(metric("lm loss", "b"), metric("lm loss", "a")) << "measuring changes no bit";
  train({"run.output_dir=c", "logging.peak_flops=1e12"});
  const std::vector<double> share = metric("share of peak", "c"), tera = metric("throughput (TFLOP/s)", "c");
  ASSERT_EQ(share.size(), 3u);
  EXPECT_NEAR(share[2], tera[2], 1e-12);
}

}  // namespace
}  // namespace strata::test
