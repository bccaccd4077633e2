// The list of the model's keys, and which values contradict each other.
#include "model/config.h"

#include "base/error.h"

namespace strata::model {
namespace {

// Far beyond any published model; within them counts and names of weights stay manageable.
constexpr std::int64_t kMaxLayers = 4096, kMaxExperts = 16384;

}  // namespace

std::int64_t ModelConfig::qk_head_dim() const {
  if (attention == Attention::Mla) return qk_nope_head_dim + qk_rope_head_dim;
  return head_dim.value_or(hidden_size / num_attention_heads);
}

std::int64_t ModelConfig::value_head_dim() const {
  return attention == Attention::Mla ? v_head_dim : qk_head_dim();
}

std::int64_t ModelConfig::kv_heads() const {
  return attention == Attention::Mla ? num_attention_heads
                                     : num_key_value_heads.value_or(num_attention_heads);
}

void ModelConfig::fields(FieldVisitor& v) {
  v("vocab_size", vocab_size, "number of token ids", dimension().required());
  v("hidden_size", hidden_size, "model width", dimension().required());
  v("num_hidden_layers", num_hidden_layers, "decoder layers", between(1, kMaxLayers).required());
  v("num_attention_heads", num_attention_heads, "query heads", dimension().required());
  attention_fields(v);
  moe_fields(v);
  v("rms_norm_eps", rms_norm_eps, "epsilon of the base model's norms", above(0));
  v("rope_theta", rope_theta, "base of the rotary angles", above(0));
  v("tie_word_embeddings", tie_word_embeddings, "the head uses the embedding matrix");
  v("num_nextn_predict_layers", num_nextn_predict_layers, "multi-token prediction blocks", between(0, 1));
  v("mtp_loss_coef", mtp_loss_coef, "weight of the multi-token prediction loss", at_least(0));
  v("initializer_range", initializer_range, "standard deviation of initial matrices", at_least(0));
  v("residual", residual, "residual connections");
}

void ModelConfig::attention_fields(FieldVisitor& v) {
  v("attention", attention, "attention kind");
  const bool mla = attention == Attention::Mla;
  const auto is_mla = [mla](const Rule& rule) { return rule.only(mla, "attention is mla"); };
  const auto is_gqa = [mla](const Rule& rule) { return rule.only(!mla, "attention is gqa"); };
  v("q_lora_rank", q_lora_rank, "width of the query latent; unset: none", is_mla(dimension()));
  v("kv_lora_rank", kv_lora_rank, "width of the key-value latent", is_mla(dimension().required()));
  v("qk_nope_head_dim", qk_nope_head_dim, "query and key width without rotation",
    is_mla(dimension().required()));
  v("qk_rope_head_dim", qk_rope_head_dim, "query and key width with rotation, even",
    is_mla(dimension().required()));
  v("v_head_dim", v_head_dim, "value width", is_mla(dimension().required()));
  v("num_key_value_heads", num_key_value_heads, "key-value heads; unset: num_attention_heads",
    is_gqa(dimension()));
  v("head_dim", head_dim, "head width, even; unset: hidden_size / num_attention_heads", is_gqa(dimension()));
}

void ModelConfig::moe_fields(FieldVisitor& v) {
  v("n_routed_experts", n_routed_experts, "routed experts per MoE layer; 0: a dense model",
    between(0, kMaxExperts));
  v("first_k_dense_replace", first_k_dense_replace, "leading layers that are dense", between(0, kMaxLayers));
  v("intermediate_size", intermediate_size, "width of a dense MLP; required unless all layers are MoE",
    dimension().required(has_dense_layers()));
  v("moe_intermediate_size", moe_intermediate_size, "width of one expert; required in a MoE model",
    dimension().required(has_moe()));
  v("n_shared_experts", n_shared_experts, "shared experts per MoE layer", between(0, kMaxExperts));
  v("num_experts_per_tok", num_experts_per_tok, "routed experts chosen per token; required in a MoE model",
    dimension().required(has_moe()));
  v("scoring_func", scoring_func, "router score");
  v("norm_topk_prob", norm_topk_prob, "gates of a token sum to one before scaling");
  v("routed_scaling_factor", routed_scaling_factor, "factor on the gates", above(0));
  v("n_group", n_group, "groups of experts", dimension());
  v("topk_group", topk_group, "groups a token may choose from", dimension());
  v("seq_aux_loss_coef", seq_aux_loss_coef, "weight of the sequence balance loss", at_least(0));
  v("router_z_loss_coef", router_z_loss_coef, "weight of the router z-loss", at_least(0));
}

void ModelConfig::validate() const {
  validate_attention();
  validate_moe();
  validate_size();
}

// Sizes may each be large, but not all at once: counts of weights are exact 64-bit integers.
void ModelConfig::validate_size() const {
  constexpr double kMost = 1e12;  // weights of one kind in one layer
  const double d = double(hidden_size), heads = double(num_attention_heads);
  const auto check = [&](const char* what, double weights) {
    if (weights > kMost)
      throw InputError(concat("hidden_size ", hidden_size, ": the ", what, " of one layer would have ",
                              weights, " weights, more than ", kMost));
  };
  check("embedding", double(vocab_size) * d);
  check("dense MLP", 3 * d * double(intermediate_size));
  check("routed experts", 3 * d * double(moe_intermediate_size) * double(n_routed_experts));
  check("shared experts", 3 * d * double(moe_intermediate_size) * double(n_shared_experts));
  check("attention", heads * double(qk_head_dim() + value_head_dim()) *
                         (d + double(kv_lora_rank) + double(q_lora_rank.value_or(0))));
}

void ModelConfig::validate_attention() const {
  if (attention == Attention::Mla) {
    if (qk_rope_head_dim % 2 != 0)
      throw InputError(concat("qk_rope_head_dim ", qk_rope_head_dim, " is odd, but rotation works on pairs"));
    return;
  }
  if (num_attention_heads % kv_heads() != 0)
    throw InputError(concat("num_key_value_heads ", kv_heads(), " does not divide num_attention_heads ",
                            num_attention_heads));
  if (!head_dim && hidden_size % num_attention_heads != 0)
    throw InputError(concat("head_dim is required, because num_attention_heads ", num_attention_heads,
                            " does not divide hidden_size ", hidden_size));
  if (qk_head_dim() % 2 != 0)
    throw InputError(concat("head_dim ", qk_head_dim(),
                            head_dim ? "" : " (hidden_size / num_attention_heads)",
                            " is odd, but rotation works on pairs"));
}

void ModelConfig::validate_moe() const {
  if (first_k_dense_replace > num_hidden_layers)
    throw InputError(concat("first_k_dense_replace ", first_k_dense_replace, " is above num_hidden_layers ",
                            num_hidden_layers));
  if (!has_moe()) {
    if (has_mtp())
      throw InputError("num_nextn_predict_layers 1 needs n_routed_experts: its block is always MoE");
    return;
  }
  if (num_experts_per_tok > n_routed_experts)
    throw InputError(
        concat("num_experts_per_tok ", num_experts_per_tok, " is above n_routed_experts ", n_routed_experts));
  if (n_routed_experts % n_group != 0)
    throw InputError(concat("n_group ", n_group, " does not divide n_routed_experts ", n_routed_experts));
  if (topk_group > n_group)
    throw InputError(concat("topk_group ", topk_group, " is above n_group ", n_group));
  const std::int64_t in_reach = topk_group * (n_routed_experts / n_group);
  if (num_experts_per_tok > in_reach)
    throw InputError(concat("num_experts_per_tok ", num_experts_per_tok, " is above the ", in_reach,
                            " experts of topk_group ", topk_group, " groups"));
  if (n_group > 1 && n_group == n_routed_experts && scoring_func == ScoringFunc::Sigmoid)
    throw InputError(concat("n_group ", n_group,
                            " leaves one expert a group, but with scoring_func sigmoid a group's",
                            " value is the sum of its two best"));
}

}  // namespace strata::model
