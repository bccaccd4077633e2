// `strata checkpoint convert`, and runs that start from what it wrote (checkpoint.load).
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Convert : public ::testing::Test {
 protected:
  Convert() {
    place.write("text.txt", sample_text(900));
    EXPECT_EQ(place.strata({"prepare", "text.txt", "--output", "text"}).status, 0);
    EXPECT_EQ(train("runs/v", {"router.bias_update_speed=0.01", "training.train_iters=3"}).status, 0);
  }
  // The tiny model without residual machinery, in float64.
  Outcome train(const std::string& folder, const Words& settings, const Words& more = {}) const {
    Words words{"train", tiny_config(), "--set", "run.output_dir=" + folder};
    for (const char* setting :
         {"data.train=[{\"path\":\"text\"}]", "data.validation={}", "model.residual={\"type\":\"vanilla\"}",
          "precision.compute=float64", "model.rms_norm_eps=1e-20", "router.bias_update_speed=0",
          "training.train_iters=1", "data.tokenizer=byte", "lr_schedule.lr_decay_style=constant",
          "lr_schedule.lr_warmup_iters=0"})
      words.insert(words.end(), {"--set", setting});
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return place.strata(words);
  }
  Outcome convert(Words words) const {
    words.insert(words.begin(), {"checkpoint", "convert"});
    return place.strata(words);
  }
  void expect_ok(const Outcome& o) const { EXPECT_EQ(o.status, 0) << o.err; }
  double first_loss(const std::string& run) const {
    std::istringstream lines(place.read(run + "/metrics.jsonl"));
    std::string line;
    std::getline(lines, line);
    return Json::parse(line).at("lm loss");
  }
  std::vector<double> weight(const std::string& run, int step, const std::string& name) const {
    char folder[64];
    std::snprintf(folder, sizeof folder, "%s/checkpoints/step_%08d", run.c_str(), step);
    return checkpoint::SafetensorsFile(place.path(std::string(folder) + "/model.safetensors")).floats(name);
  }

  Workplace place;
};

constexpr const char* kMsar = R"(model.residual={"type":"msar","streams":2,"num_blocks":2})";

TEST_F(Convert, SaysWhatItDid) {
  const Outcome o =
      convert({"runs/v", "--to", "m", "--residual", "msar", "--set", "model.residual.streams=2"});
  expect_ok(o);
  EXPECT_TRUE(
      o.out.starts_with("from runs/v/checkpoints/step_00000003 (checkpoint, step 3): vanilla\n"
                        "to m (strata): msar in 4 blocks of 2 streams, "))
      << o.out;
  EXPECT_NE(o.out.find(" weights, of them 4 router biases in float64, "), std::string::npos) << o.out;
  const Outcome seen = place.strata({"checkpoint", "inspect", "m"});
  EXPECT_NE(seen.out.find(" F64), of them 4 router biases, "), std::string::npos) << seen.out;
  EXPECT_NE(o.out.find("logits in float64, max |difference| / max |logit|: "), std::string::npos) << o.out;
  EXPECT_EQ(place.strata({"checkpoint", "verify", "m"}).out, "m: sound, step 3, 2 files\n");
  const Json config = Json::parse(place.read("m/config.json"));
  EXPECT_EQ(config.at("model_type"), "strata");
  EXPECT_EQ(config["model"]["residual"]["type"], "msar");
  EXPECT_FALSE(config.contains("optimizer"));
}

TEST_F(Convert, WhatItWroteIsReadEverywhere) {
  expect_ok(convert({"runs/v/checkpoints", "--to", "m", "--residual", "mhc"}));
  expect_ok(convert({"runs/v", "--to", "hf", "--format", "huggingface"}));
  expect_ok(convert({"hf", "--to", "again"}));
  const Words prompt{"--prompt", "the cat", "--max-new-tokens", "4", "--temperature", "0"};
  std::vector<std::string> texts;
  for (const char* folder : {"m", "hf", "again", "runs/v"}) {
    Words words{"generate", "--checkpoint", folder, "--set", "precision.compute=float64"};
    words.insert(words.end(), prompt.begin(), prompt.end());
    const Outcome o = place.strata(words);
    expect_ok(o);
    texts.push_back(o.out);
  }
  EXPECT_EQ(texts, std::vector<std::string>(4, texts[0]));
  checkpoint::SafetensorsWriter batch;
  batch.add_integers("input_ids", {1, 4}, {1, 2, 3, 4});
  batch.add_integers("labels", {1, 4}, {2, 3, 4, 5});
  batch.write(place.path("b.safetensors"));
  const Words trace{"trace",         "--config", "m/config.json", "--batch",
                    "b.safetensors", "--out",    "o.safetensors"};
  for (const char* weights : {"m/model.safetensors", "m"}) {
    Words words = trace;
    words.insert(words.end(), {"--weights", weights});
    expect_ok(place.strata(words));
  }
  EXPECT_EQ(place.strata({"checkpoint", "inspect", "m"}).status, 0);
}

TEST_F(Convert, HuggingFaceBalanceLossesArePrinted) {
  expect_ok(convert({"runs/v", "--to", "hf", "--format", "huggingface"}));
  Json config = Json::parse(place.read("hf/config.json"));
  config["aux_loss_alpha"] = 0.001;
  place.write("hf/config.json", config.dump());
  const Outcome o = convert({"hf", "--to", "a"});
  EXPECT_NE(o.out.find("note: aux_loss_alpha 0.001 is a choice of a training run"), std::string::npos)
      << o.out;
  EXPECT_NE(o.out.find("model.seq_aux_loss_coef 0 (default)\n"), std::string::npos) << o.out;
  EXPECT_EQ(Json::parse(place.read("a/config.json"))["model"]["seq_aux_loss_coef"], 0.0);
  const Outcome set = convert({"hf", "--to", "b", "--set", "model.seq_aux_loss_coef=0.002"});
  EXPECT_NE(set.out.find("model.seq_aux_loss_coef 0.002 (command line)\n"), std::string::npos) << set.out;
}

TEST_F(Convert, WrongUsage) {
  const auto says = [&](const Words& words, const std::string& sentence) {
    const Outcome o = convert(words);
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(o.err, "strata: " + sentence + "\n");
  };
  says({"runs/v"}, "checkpoint convert: --to is required");
  says({"runs/v", "--to", "m", "--dtype", "bfloat16"},
       "checkpoint convert: --dtype and --max-shard-gb need --format huggingface");
  says({"runs/v", "--to", "m", "--format", "huggingface", "--residual", "mhc"},
       "model.residual.type mhc has no form in Hugging Face's deepseek_v3 or deepseek_v2: only vanilla has; "
       "--format strata writes all");
  says({"runs/v", "--to", "m", "--format", "huggingface", "--max-shard-gb", "nan"},
       "checkpoint convert: --max-shard-gb: a number above 0 is needed");
  says({"runs/v", "--to", "m", "--residual", "mch"},
       "command line: model.residual.type is \"mch\", allowed is \"vanilla\", \"attnres\", \"msar\", \"mhc\" "
       "or \"attnres_mhc\"");
  says({"none", "--to", "m"}, "none: no such folder");
  says({"text.bin", "--to", "m"}, "text.bin is no folder; the folder of a model is needed");
  says({".", "--to", "m"}, ". holds no model: neither step_... folders, nor manifest.json, nor config.json");
  EXPECT_FALSE(std::filesystem::exists(place.path("m")));
}

TEST_F(Convert, LogitsThatDifferEndItWithStatusOne) {
  const Outcome o = convert({"runs/v", "--to", "f", "--format", "huggingface"});
  expect_ok(o);  // float32 of a float64 run: they differ, and that is said
  EXPECT_EQ(o.out.find("|logit|: 0 at"), std::string::npos) << o.out;
  checkpoint::SafetensorsWriter tiny;
  const checkpoint::SafetensorsFile file(place.path("f/model.safetensors"));
  for (const auto& [name, t] : file.tensors()) {
    std::vector<double> values = file.floats(name);
    for (double& v : values) v *= 1e-12;
    tiny.add(name, "F32", t.shape, values);
  }
  tiny.write(place.path("f/model.safetensors"));
  const Outcome bad = convert({"f", "--to", "m", "--residual", "attnres"});
  EXPECT_EQ(bad.status, 1) << bad.err;
  EXPECT_TRUE(bad.err.starts_with("strata: nothing is written: the logits differ from those of f by "))
      << bad.err;
  EXPECT_FALSE(std::filesystem::exists(place.path("m")));
}

TEST_F(Convert, ANewRunStartsFromIt) {
  expect_ok(convert({"runs/v", "--to", "m", "--set", kMsar}));
  const Outcome plain = train("runs/a", {"checkpoint.load=runs/v"});
  expect_ok(plain);
  EXPECT_NE(
      plain.err.find("starts with the weights of runs/v/checkpoints/step_00000003 (checkpoint, step 3)"),
      std::string::npos)
      << plain.err;
  const Outcome msar = train("runs/b", {"checkpoint.load=m", kMsar, "model.rope_theta=500"});
  expect_ok(msar);
  EXPECT_NE(msar.err.find("starts with the weights of m (exported model, step 3)"), std::string::npos)
      << msar.err;
  EXPECT_NE(msar.err.find("model.rope_theta was 10000.0 there and is 500.0 here"), std::string::npos)
      << msar.err;
  expect_ok(train("runs/c", {"checkpoint.load=m", kMsar}));
  EXPECT_NEAR(first_loss("runs/c"), first_loss("runs/a"), 1e-9);
  EXPECT_GT(std::abs(first_loss("runs/b") - first_loss("runs/a")), 1e-9);
  // Router biases come along, moments and step counts do not.
  const std::string bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  const std::vector<double> biases = weight("runs/v", 3, bias);
  EXPECT_NE(biases, std::vector<double>(biases.size(), 0.0));
  EXPECT_EQ(weight("runs/c", 1, bias), biases);
  const Json state = Json::parse(place.read("runs/c/checkpoints/step_00000001/state.json"));
  EXPECT_EQ(state.at("step"), 1);
}

// What its text was to the model goes along: eval reads it the same way.
TEST_F(Convert, KeepsHowDocumentsWereRead) {
  expect_ok(train("runs/d", {"data.reset_attention_mask=true", "data.eod_mask_loss=true"}));
  expect_ok(convert({"runs/d", "--to", "m", "--set", kMsar}));
  const Json data = Json::parse(place.read("m/config.json")).at("data");
  EXPECT_EQ(data.at("reset_attention_mask"), true);
  EXPECT_EQ(data.at("eod_mask_loss"), true);
}

TEST_F(Convert, ItsOwnCheckpointsGoBeforeIt) {
  expect_ok(train("runs/a", {"checkpoint.load=runs/v"}));
  std::filesystem::remove_all(place.path("runs/v"));
  const Outcome o = train("runs/a", {"checkpoint.load=runs/v", "training.train_iters=2"}, {"--override"});
  expect_ok(o);
  EXPECT_NE(o.err.find("goes on behind step 1"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("starts with the weights"), std::string::npos) << o.err;
}

TEST_F(Convert, AModelOfAnotherShapeIsRefusedBeforeAnythingGoes) {
  expect_ok(train("runs/a", {}));
  const Outcome o = train("runs/a", {"checkpoint.load=runs/v", "model.hidden_size=24"}, {"--overwrite"});
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(
      o.err.find(
          "step_00000003/model.safetensors has weights of other shapes: model.embed_tokens.weight is ["),
      std::string::npos)
      << o.err;
  EXPECT_NE(o.err.find(" more\n"), std::string::npos) << o.err;
  EXPECT_TRUE(std::filesystem::exists(place.path("runs/a/checkpoints/step_00000001")));
  const Outcome none = train("runs/b", {"checkpoint.load=runs/none"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("runs/none: no such folder"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace strata::test
