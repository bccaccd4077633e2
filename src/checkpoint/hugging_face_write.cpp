// ModelConfig -> config.json of transformers.
#include <nlohmann/json.hpp>

#include "checkpoint/hugging_face.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& setting, const std::string& why) {
  throw InputError(
      concat("model.", setting, " has no form in Hugging Face's deepseek_v3 or deepseek_v2: ", why));
}

void check(const model::ModelConfig& m) {
  if (m.residual.type != residual::Type::Vanilla)
    refuse(concat("residual.type ", name_of(m.residual.type)),
           "only vanilla has; --format strata writes all");
  if (m.attention != model::Attention::Mla)
    refuse(concat("attention ", name_of(m.attention)), "only mla has; --format strata writes all");
  if (m.scoring_func == model::ScoringFunc::Sigmoid || !m.has_moe()) return;
  if (m.has_mtp()) refuse("num_nextn_predict_layers 1", "deepseek_v2, with scoring_func softmax, has none");
  if (m.norm_topk_prob && m.routed_scaling_factor != 1)
    refuse(concat("routed_scaling_factor ", m.routed_scaling_factor),
           "with scoring_func softmax and norm_topk_prob only 1 has");
}

void add_experts(Json& j, const model::ModelConfig& m) {
  const bool is_sigmoid = m.scoring_func == model::ScoringFunc::Sigmoid;
  j["n_routed_experts"] = m.has_moe() ? Json(m.n_routed_experts) : Json();
  j["moe_layer_freq"] = 1;
  j["first_k_dense_replace"] = m.has_moe() ? m.first_k_dense_replace : m.num_hidden_layers;
  if (!m.has_moe()) return;
  j["n_shared_experts"] = m.n_shared_experts;
  j["num_experts_per_tok"] = m.num_experts_per_tok;
  j["moe_intermediate_size"] = m.moe_intermediate_size;
  j["scoring_func"] = name_of(m.scoring_func);
  j["topk_method"] = is_sigmoid ? "noaux_tc" : m.n_group > 1 ? "group_limited_greedy" : "greedy";
  j["n_group"] = m.n_group;
  j["topk_group"] = m.topk_group;
  j["norm_topk_prob"] = m.norm_topk_prob;
  j["routed_scaling_factor"] = m.routed_scaling_factor;
}

}  // namespace

std::string hugging_face_config(const model::ModelConfig& m, const HuggingFaceText& more) {
  check(m);
  const bool is_v2 = m.has_moe() && m.scoring_func == model::ScoringFunc::Softmax;
  Json j;
  j["architectures"] = {is_v2 ? "DeepseekV2ForCausalLM" : "DeepseekV3ForCausalLM"};
  j["model_type"] = is_v2 ? "deepseek_v2" : "deepseek_v3";
  j["torch_dtype"] = more.dtype;
  j["vocab_size"] = m.vocab_size;
  j["hidden_size"] = m.hidden_size;
  j["num_hidden_layers"] = m.num_hidden_layers;
  j["num_attention_heads"] = m.num_attention_heads;
  j["num_key_value_heads"] = m.num_attention_heads;
  j["q_lora_rank"] = m.q_lora_rank ? Json(*m.q_lora_rank) : Json();
  j["kv_lora_rank"] = m.kv_lora_rank;
  j["qk_nope_head_dim"] = m.qk_nope_head_dim;
  j["qk_rope_head_dim"] = m.qk_rope_head_dim;
  j["v_head_dim"] = m.v_head_dim;
  j["attention_bias"] = false;
  j["attention_dropout"] = 0.0;
  j["hidden_act"] = "silu";
  j["intermediate_size"] = m.intermediate_size;
  add_experts(j, m);
  j["rms_norm_eps"] = m.rms_norm_eps;
  j["rope_theta"] = m.rope_theta;
  j["rope_scaling"] = nullptr;
  j["rope_interleave"] = true;
  j["max_position_embeddings"] = more.max_position_embeddings;
  j["tie_word_embeddings"] = m.tie_word_embeddings;
  j["num_nextn_predict_layers"] = m.num_nextn_predict_layers;
  j["initializer_range"] = m.initializer_range;
  j["use_cache"] = true;
  j["bos_token_id"] = nullptr;
  j["eos_token_id"] = more.eos_token_id ? Json(*more.eos_token_id) : Json();
  return j.dump(2) + "\n";
}

}  // namespace strata::checkpoint
