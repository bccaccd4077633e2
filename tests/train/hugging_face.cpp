// Models of Hugging Face's transformers in and out: the numbers of an independent implementation behind both
// orders of rotated rows, bytes that come back, and everything that this program does not compute refused.
#include "checkpoint/hugging_face.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/model_folder.h"
#include "support/small_model.h"
#include "train/batch_file.h"
#include "train/convert.h"
#include "train/logit_check.h"
#include "train/weights.h"

namespace strata::test {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::SafetensorsWriter;
using Json = nlohmann::ordered_json;
using Tensors = std::map<std::string, std::pair<std::vector<std::int64_t>, std::vector<double>>>;

const std::string kGolden = STRATA_TEST_FIXTURES "/golden/vanilla_mla";

// The model of that case, as a file of transformers has it.
Json golden_config() {
  return Json::parse(R"({
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "float32",
    "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
    "q_lora_rank": null, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
    "intermediate_size": 64, "moe_intermediate_size": 16, "n_routed_experts": 8, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "scoring_func": "sigmoid",
    "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1,
    "aux_loss_alpha": 0.001, "seq_aux": true, "hidden_act": "silu", "attention_bias": false,
    "attention_dropout": 0.0, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "rope_scaling": null,
    "max_position_embeddings": 4096, "tie_word_embeddings": false, "num_nextn_predict_layers": 0,
    "initializer_range": 0.02, "use_cache": true, "bos_token_id": 0, "eos_token_id": 1, "pretraining_tp": 1})");
}

Tensors tensors_of(const std::string& file) {
  const SafetensorsFile f(file);
  Tensors all;
  for (const auto& [name, t] : f.tensors()) all[name] = {t.shape, f.floats(name)};
  return all;
}

class HuggingFace : public ::testing::Test {
 protected:
  void write(const Json& config, const Tensors& tensors) const {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    write_file(folder + "/config.json", config.dump(2));
    SafetensorsWriter w;
    for (const auto& [name, t] : tensors) w.add(name, "F32", t.first, t.second);
    w.write(folder + "/model.safetensors");
  }
  // Largest difference from the reference's logits, as a part of the largest.
  double difference(const Json& config, const Tensors& tensors) const {
    write(config, tensors);
    const train::ModelSource source = train::open_model(folder);
    EXPECT_EQ(source.kind, train::SourceKind::HuggingFace);
    ModelRun run;
    run.scale_norms = 0;
    run.prepare = [&](ParameterStore& store) { train::load_weights(store, source.weights); };
    return train::largest_difference(
        run_model(source.config.model, train::load_batch(kGolden + "/batch.safetensors"), run).logits,
        SafetensorsFile(kGolden + "/expected.safetensors").floats("logits"));
  }
  std::string refusal(const Json& config, const Tensors& tensors) const {
    write(config, tensors);
    return refusal();
  }
  std::string refusal() const {
    try {
      const train::ModelSource source = train::open_model(folder);
      train::sample_logits(source.config.model, source.weights);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  const TempFolder place;
  const std::string folder = place / "hf";
  Json config = golden_config();
  Tensors golden = tensors_of(kGolden + "/model.safetensors");
};

// In every head of `head` rows the last four, of pairs (0, 1) (2, 3), as pairs (0, 2) (1, 3).
void turn(std::vector<double>& values, std::size_t columns, std::size_t head) {
  const std::vector<double> from = values;
  constexpr std::size_t kOrder[] = {0, 2, 1, 3};
  for (std::size_t row = head - 4; row < values.size() / columns; row += head)
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t c = 0; c < columns; ++c)
        values[(row + i) * columns + c] = from[(row + kOrder[i]) * columns + c];
}

TEST_F(HuggingFace, LogitsAreTheReferences) { EXPECT_LE(difference(config, golden), 1e-9); }

TEST_F(HuggingFace, OneOrderOfRotatedRowsIsRight) {
  config["rope_interleave"] = false;
  EXPECT_GT(difference(config, golden), 1e-3);
  Tensors turned = golden;
  for (auto& [name, t] : turned) {
    if (name.ends_with("q_proj.weight")) turn(t.second, 32, 12);
    if (name.ends_with("kv_a_proj_with_mqa.weight")) turn(t.second, 32, 20);
  }
  EXPECT_LE(difference(config, turned), 1e-9);
  config["rope_interleave"] = true;
  EXPECT_GT(difference(config, turned), 1e-3);
  EXPECT_LE(difference(config, golden), 1e-9);
}

TEST_F(HuggingFace, FusedExpertsAndNamesOfTransformersFive) {
  Tensors fused;
  for (const auto& [name, t] : golden) {
    const std::size_t at = name.find(".experts.");
    if (at == std::string::npos) fused[name] = t;
  }
  for (int layer = 1; layer < 4; ++layer) {
    const std::string prefix = concat("model.layers.", layer, ".mlp.experts.");
    auto& pair = fused[prefix + "gate_up_proj"] = {{8, 32, 32}, {}};
    auto& down = fused[prefix + "down_proj"] = {{8, 32, 16}, {}};
    for (int e = 0; e < 8; ++e) {
      const auto append = [&, e](std::vector<double>& to, const char* part) {
        const std::vector<double>& from = golden.at(concat(prefix, e, part)).second;
        to.insert(to.end(), from.begin(), from.end());
      };
      append(pair.second, ".gate_proj.weight");
      append(pair.second, ".up_proj.weight");
      append(down.second, ".down_proj.weight");
    }
  }
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = Json{{"rope_theta", 10000.0}, {"rope_type", "default"}};
  config["num_local_experts"] = config["n_routed_experts"];
  config.erase("n_routed_experts");
  EXPECT_LE(difference(config, fused), 1e-9);
  const std::string first = "model.layers.1.mlp.experts.";
  fused[first + "0.up_proj.weight"] = golden.at(first + "0.up_proj.weight");
  EXPECT_NE(refusal(config, fused).find("both " + first + "0.up_proj.weight and "), std::string::npos)
      << refusal();
  fused.erase(first + "0.up_proj.weight");
  fused[first + "gate_up_proj"] = {{8, 33, 32}, std::vector<double>(8 * 33 * 32)};
  EXPECT_NE(refusal(config, fused).find("gate_up_proj has 33 rows an expert, expected as many"),
            std::string::npos)
      << refusal();
}

TEST_F(HuggingFace, BalanceLossesAreNotTakenOver) {
  write(config, golden);
  const train::ModelSource source = train::open_model(folder);
  EXPECT_EQ(source.config.model.seq_aux_loss_coef, 0);
  ASSERT_EQ(source.notes.size(), 1u);
  EXPECT_EQ(source.notes[0],
            "aux_loss_alpha 0.001 is a choice of a training run and not taken over; --set "
            "model.seq_aux_loss_coef=0.001 takes it");
}

TEST_F(HuggingFace, WhatIsNotComputedIsRefused) {
  const auto says = [&](const char* key, const Json& value, const std::string& sentence) {
    Json changed = config;
    changed[key] = value;
    write_file(folder + "/config.json", changed.dump());
    const std::string said = refusal();
    EXPECT_NE(said.find("config.json"), std::string::npos) << said;
    EXPECT_NE(said.find(sentence), std::string::npos) << said << "\n" << sentence;
  };
  write(config, golden);
  says("model_type", "llama", R"(model_type is "llama", allowed is "deepseek_v3" or "deepseek_v2")");
  says("architectures", {"DeepseekV3Model"},
       R"(is ["DeepseekV3Model"], allowed is ["DeepseekV3ForCausalLM"])");
  says("hidden_act", "gelu", R"(hidden_act is "gelu", allowed is "silu")");
  says("attention_bias", true, "attention_bias is true, allowed is false");
  says("attention_dropout", 0.1, "attention_dropout is 0.1, allowed is 0");
  says("quantization_config", {{"quant_method", "fp8"}}, "quantization_config is {");
  says("num_key_value_heads", 2, "num_key_value_heads is 2, allowed is 4");
  says("moe_layer_freq", 2, "moe_layer_freq is 2, allowed is 1");
  says("scoring_func", "tanh", R"(scoring_func is "tanh", allowed is "sigmoid" in deepseek_v3)");
  says("topk_method", "greedy", R"(topk_method is "greedy", allowed is "noaux_tc")");
  says("scoring_func", "softmax", R"(scoring_func is "softmax", allowed is "sigmoid" in deepseek_v3)");
  says("rope_scaling", {{"type", "yarn"}, {"factor", 40}},
       R"(rope_scaling.type is "yarn", allowed is "default")");
  says("rope_scaling", {{"type", "default"}, {"factor", 40}}, "rope_scaling.factor is 40, allowed is null");
  says("rope_parameters", {{"rope_theta", 5.0}}, "rope_parameters.rope_theta is 5.0, allowed is 10000.0");
  says("rope_interleave", 1, "rope_interleave is 1, allowed is true or false");
  says("num_nextn_predict_layers", 2, "num_nextn_predict_layers is 2");
  says("num_experts_per_tok", 9, "num_experts_per_tok 9 is above n_routed_experts 8");
  says("n_group", nullptr, "lacks n_group");
  says("hidden_size", nullptr, "lacks hidden_size");
  says("hidden_size", "wide", R"(hidden_size is "wide")");
  says("n_routed_experts", "8", R"(n_routed_experts is "8", allowed is a number)");
  says("aux_loss_alpha", "small", R"(aux_loss_alpha is "small", allowed is a number)");
  says("max_position_embeddings", 16777217,
       "max_position_embeddings is 16777217, allowed is an integer from 1 to 16777216");
  says("qk_norm", true, "qk_norm is true, but this program does not know qk_norm");
  says("rope_theta", nullptr, "lacks rope_theta");
  config["qk_norm"] = false;
  EXPECT_EQ(refusal(config, golden), "");
  config["model_type"] = "deepseek_v2";
  config["architectures"] = {"DeepseekV2ForCausalLM"};
  says("scoring_func", "sigmoid", R"(scoring_func is "sigmoid", allowed is "softmax" in deepseek_v2)");
  says("scoring_func", "softmax",
       R"(topk_method is "noaux_tc", allowed is "greedy" or "group_limited_greedy")");
}

TEST_F(HuggingFace, DamagedFilesAreRefused) {
  write(config, golden);
  ASSERT_EQ(refusal(), "");
  train::convert({.from = folder,
                  .to = place / "shards",
                  .format = train::ModelFormat::HuggingFace,
                  .overrides = {},
                  .max_shard_bytes = 1e5});
  const std::string shards = place / "shards", second = shards + "/model-00002-of-00003.safetensors";
  ASSERT_TRUE(std::filesystem::exists(second));
  std::filesystem::remove_all(folder);
  std::filesystem::rename(shards, folder);
  EXPECT_EQ(refusal(), "");
  const std::string shard = folder + "/model-00002-of-00003.safetensors";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 4);
  EXPECT_NE(refusal().find("model-00002-of-00003.safetensors is not a sound safetensors file"),
            std::string::npos)
      << refusal();
  std::filesystem::remove(shard);
  EXPECT_NE(refusal().find("cannot read " + shard + ": no such file"), std::string::npos) << refusal();
}

// Model by model: to Hugging Face and back, and there again.
struct Case {
  std::string name;
  std::function<void(model::ModelConfig&)> change;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class RoundTrip : public ::testing::TestWithParam<Case> {};

TEST_P(RoundTrip, GivesTheBytesBack) {
  model::ModelConfig config = small_config({});
  config.seq_aux_loss_coef = config.router_z_loss_coef = 0;
  GetParam().change(config);
  const TempFolder place;
  write_model(place / "a", config);
  const auto convert = [&](const char* from, const char* to, bool out) {
    train::ConvertOptions o{.from = place / from, .to = place / to, .overrides = {}};
    if (out) o.format = train::ModelFormat::HuggingFace;
    EXPECT_EQ(train::convert(o).difference, 0);
  };
  convert("a", "b", true);
  convert("b", "c", false);
  convert("c", "d", true);
  EXPECT_EQ(tensors_of(place / "c/model.safetensors"), tensors_of(place / "a/model.safetensors"));
  EXPECT_EQ(read_file(place / "d/model.safetensors"), read_file(place / "b/model.safetensors"));
  EXPECT_EQ(read_file(place / "d/config.json"), read_file(place / "b/config.json"));
  EXPECT_EQ(config_json(train::open_model(place / "c").config.model), config_json(config));
  EXPECT_EQ(Json::parse(read_file(place / "b/config.json")).at("rope_interleave"), true);
  const SafetensorsFile there(place / "b/model.safetensors");
  for (const char* copy : {"model.layers.4.embed_tokens.weight", "model.layers.4.shared_head.head.weight"})
    EXPECT_EQ(there.has(copy), config.has_mtp());
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTrip,
                         ::testing::Values(Case{"moe", [](auto&) {}},
                                           Case{"dense",
                                                [](auto& c) {
                                                  c.n_routed_experts = c.n_shared_experts =
                                                      c.num_experts_per_tok = 0;
                                                  c.moe_intermediate_size = c.first_k_dense_replace = 0;
                                                }},
                                           Case{"tied", [](auto& c) { c.tie_word_embeddings = true; }},
                                           Case{"query_latent_groups_scale",
                                                [](auto& c) {
                                                  c.q_lora_rank = 8;
                                                  c.n_routed_experts = 6;
                                                  c.n_group = 3;
                                                  c.topk_group = 2;
                                                  c.routed_scaling_factor = 2.5;
                                                  c.norm_topk_prob = false;
                                                }},
                                           Case{"prediction",
                                                [](auto& c) { c.num_nextn_predict_layers = 1; }},
                                           Case{"prediction_tied",
                                                [](auto& c) {
                                                  c.num_nextn_predict_layers = 1;
                                                  c.tie_word_embeddings = true;
                                                }},
                                           Case{"softmax",
                                                [](auto& c) {
                                                  c.scoring_func = model::ScoringFunc::Softmax;
                                                  c.norm_topk_prob = false;
                                                  c.routed_scaling_factor = 2;
                                                }},
                                           Case{"softmax_groups",
                                                [](auto& c) {
                                                  c.scoring_func = model::ScoringFunc::Softmax;
                                                  c.n_routed_experts = 6;
                                                  c.n_group = 3;
                                                  c.topk_group = 2;
                                                  c.n_shared_experts = 0;
                                                }}),
                         [](const auto& info) { return info.param.name; });

TEST_F(HuggingFace, BFloat16KeepsRouterBiases) {
  write(config, golden);
  const train::Conversion c = train::convert({.from = folder,
                                              .to = place / "half",
                                              .format = train::ModelFormat::HuggingFace,
                                              .overrides = {},
                                              .bfloat16 = true});
  EXPECT_GT(c.difference, 1e-6);
  const SafetensorsFile half(place / "half/model.safetensors");
  for (const auto& [name, t] : half.tensors())
    EXPECT_EQ(t.dtype, name.ends_with("e_score_correction_bias") ? "F32" : "BF16") << name;
  EXPECT_EQ(half.floats("lm_head.weight")[5], double(float(bfloat16(golden.at("lm_head.weight").second[5]))));
  EXPECT_EQ(Json::parse(read_file(place / "half/config.json")).at("torch_dtype"), "bfloat16");
}

TEST_F(HuggingFace, CopiesMustBeCopies) {
  golden["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{2}, {1, 0.01}};
  config["num_nextn_predict_layers"] = 1;
  write(config, golden);
  EXPECT_EQ(train::open_model(folder).config.model.num_nextn_predict_layers, 0)
      << "its weights are not there";
  config["tie_word_embeddings"] = true;
  EXPECT_NE(refusal(config, golden).find("lm_head.weight differs from model.embed_tokens.weight"),
            std::string::npos);
  golden["lm_head.weight"] = golden["model.embed_tokens.weight"];
  EXPECT_EQ(refusal(config, golden), "");
}

TEST_F(HuggingFace, AnIndexAndItsShardsMustAgree) {
  write(config, golden);
  std::filesystem::remove(folder + "/model.safetensors");
  write_file(folder + "/model.safetensors.index.json",
             R"({"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}})");
  EXPECT_NE(refusal().find("model-00001-of-00001.safetensors: no such file"), std::string::npos) << refusal();
  SafetensorsWriter().write(folder + "/model-00001-of-00001.safetensors");
  EXPECT_NE(refusal().find("names weights that its shards lack: lm_head.weight"), std::string::npos)
      << refusal();
}

TEST_F(HuggingFace, OnlyWhatTransformersHasGoesOut) {
  const auto says = [&](const model::ModelConfig& model, const std::string& sentence) {
    try {
      checkpoint::hugging_face_config(model, {});
      ADD_FAILURE() << "no refusal: " << sentence;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(sentence), std::string::npos) << e.what();
    }
  };
  model::ModelConfig c = small_config({});
  c.residual.type = residual::Type::Mhc;
  says(c, "model.residual.type mhc has no form in Hugging Face's");
  c = small_config({});
  c.attention = model::Attention::Gqa;
  says(c, "model.attention gqa has no form");
  c = small_config({});
  c.scoring_func = model::ScoringFunc::Softmax;
  c.routed_scaling_factor = 2;
  says(c, "model.routed_scaling_factor 2 has no form");
  c.num_nextn_predict_layers = 1;
  says(c, "model.num_nextn_predict_layers 1 has no form");
}

}  // namespace
}  // namespace strata::test
