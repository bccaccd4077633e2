#include "model/block.h"

#include "nn/norm.h"

namespace strata::model {
namespace {

std::unique_ptr<nn::Attention> make_attention(const ModelConfig& c, const std::string& prefix,
                                              ParameterStore& store) {
  if (c.attention == Attention::Gqa)
    return std::make_unique<nn::GqaAttention>(store, prefix,
                                              nn::GqaConfig{.hidden_size = c.hidden_size,
                                                            .heads = c.num_attention_heads,
                                                            .key_heads = c.kv_heads(),
                                                            .head_dim = c.qk_head_dim(),
                                                            .rope_theta = c.rope_theta,
                                                            .init_std = c.initializer_range});
  return std::make_unique<nn::MlaAttention>(store, prefix,
                                            nn::MlaConfig{.hidden_size = c.hidden_size,
                                                          .heads = c.num_attention_heads,
                                                          .q_lora_rank = c.q_lora_rank,
                                                          .kv_lora_rank = c.kv_lora_rank,
                                                          .nope_dim = c.qk_nope_head_dim,
                                                          .rope_dim = c.qk_rope_head_dim,
                                                          .value_dim = c.v_head_dim,
                                                          .rms_norm_eps = c.rms_norm_eps,
                                                          .rope_theta = c.rope_theta,
                                                          .init_std = c.initializer_range});
}

nn::MoeConfig moe_config(const ModelConfig& c) {
  return {.hidden_size = c.hidden_size,
          .expert_width = c.moe_intermediate_size,
          .experts = c.n_routed_experts,
          .shared_experts = c.n_shared_experts,
          .rule = {.scoring = c.scoring_func == ScoringFunc::Sigmoid ? kernels::Scoring::Sigmoid
                                                                     : kernels::Scoring::Softmax,
                   .top_k = c.num_experts_per_tok,
                   .groups = c.n_group,
                   .top_groups = c.topk_group,
                   .normalize = c.norm_topk_prob,
                   .scale = c.routed_scaling_factor,
                   .balance_coef = c.seq_aux_loss_coef,
                   .z_coef = c.router_z_loss_coef},
          .init_std = c.initializer_range};
}

}  // namespace

Block::Block(const ModelConfig& config, std::int64_t layer, ParameterStore& store,
             comm::Communicator* experts) {
  const std::string prefix = concat("model.layers.", layer, ".");
  const std::int64_t D = config.hidden_size;
  const auto norm = [&](const char* name) {
    return residual::Norm{&nn::add_norm_weight(store, prefix + name, D), config.rms_norm_eps};
  };
  attention_norm_ = norm("input_layernorm.weight");
  attention_ = make_attention(config, prefix + "self_attn", store);
  feed_forward_norm_ = norm("post_attention_layernorm.weight");
  if (config.is_moe_layer(layer))
    moe_ = std::make_unique<nn::Moe>(store, prefix + "mlp", moe_config(config), experts);
  else
    mlp_ = std::make_unique<nn::Mlp>(store, prefix + "mlp", D, config.intermediate_size,
                                     config.initializer_range);
}

Var Block::attention(Tape& tape, const Var& x, const nn::Context& context) const {
  return attention_->forward(tape, x, context);
}

Var Block::feed_forward(Tape& tape, const Var& x, const nn::Context& context, std::vector<Var>& aux) const {
  if (mlp_) return mlp_->forward(tape, x);
  const nn::MoeOutput out = moe_->forward(tape, x, context);
  aux.push_back(out.aux);
  return out.y;
}

}  // namespace strata::model
