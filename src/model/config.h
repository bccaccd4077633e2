// The model's sizes and choices, by their Hugging Face DeepSeek names.
#pragma once
#include "base/fields.h"
#include "residual/config.h"

namespace strata::model {

enum class Attention { Mla, Gqa };
constexpr auto enum_names(Attention) { return std::array<std::string_view, 2>{"mla", "gqa"}; }
enum class ScoringFunc { Sigmoid, Softmax };
constexpr auto enum_names(ScoringFunc) { return std::array<std::string_view, 2>{"sigmoid", "softmax"}; }

struct ModelConfig {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;

  Attention attention = Attention::Mla;
  std::optional<std::int64_t> q_lora_rank = {};  // mla; unset: queries come straight from the hidden state
  std::int64_t kv_lora_rank = 0;                 // mla, as the next three
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  std::optional<std::int64_t> num_key_value_heads = {};  // gqa; unset: num_attention_heads
  std::optional<std::int64_t> head_dim = {};             // gqa; unset: hidden_size / num_attention_heads

  std::int64_t intermediate_size = 0;      // dense layers
  std::int64_t n_routed_experts = 0;       // 0: a dense model
  std::int64_t moe_intermediate_size = 0;  // one expert
  std::int64_t n_shared_experts = 0;
  std::int64_t num_experts_per_tok = 0;
  std::int64_t first_k_dense_replace = 0;
  ScoringFunc scoring_func = ScoringFunc::Sigmoid;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1.0;
  std::int64_t n_group = 1;
  std::int64_t topk_group = 1;
  double seq_aux_loss_coef = 0.0;
  double router_z_loss_coef = 0.0;

  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
  std::int64_t num_nextn_predict_layers = 0;
  double mtp_loss_coef = 0.3;
  double initializer_range = 0.006;
  residual::Config residual = {};

  std::int64_t sublayers() const { return 2 * num_hidden_layers; }
  bool has_moe() const { return n_routed_experts > 0; }
  bool has_mtp() const { return num_nextn_predict_layers > 0; }
  // Layers 0..num_hidden_layers-1 of the trunk, then the MTP block, which is always MoE.
  bool is_moe_layer(std::int64_t layer) const { return has_moe() && layer >= first_k_dense_replace; }
  // MoE layers with the MTP block counted.
  std::int64_t moe_layers() const {
    return has_moe() ? num_hidden_layers - first_k_dense_replace + num_nextn_predict_layers : 0;
  }
  bool has_dense_layers() const { return !has_moe() || first_k_dense_replace > 0; }
  // Width of a query or key head, of a value head, and key-value heads, whatever the attention.
  std::int64_t qk_head_dim() const;
  std::int64_t value_head_dim() const;
  std::int64_t kv_heads() const;

  void fields(FieldVisitor& v);
  // Throws InputError on values that contradict each other.
  void validate() const;
  bool operator==(const ModelConfig&) const = default;

 private:
  void attention_fields(FieldVisitor& v);
  void moe_fields(FieldVisitor& v);
  void validate_attention() const;
  void validate_moe() const;
  void validate_size() const;
};

}  // namespace strata::model
