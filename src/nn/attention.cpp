#include "nn/attention.h"

#include <cmath>

#include "nn/norm.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/mla_latent.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace strata::nn {
namespace {

// Adds the matrices of one module.
struct Matrices {
  ParameterStore& store;
  const std::string& prefix;
  double std;

  Parameter* operator()(const std::string& name, std::int64_t out, std::int64_t in) const {
    return &store.add(
        {.name = prefix + "." + name + ".weight", .dims = {out, in}, .init = Init::normal(std)});
  }
};

}  // namespace

MlaAttention::MlaAttention(ParameterStore& store, const std::string& prefix, const MlaConfig& config)
    : config_(config) {
  const MlaConfig& c = config_;
  const Matrices matrix{store, prefix, c.init_std};
  const std::int64_t q_width = c.heads * (c.nope_dim + c.rope_dim);
  if (c.q_lora_rank) {
    q_a_proj_ = matrix("q_a_proj", *c.q_lora_rank, c.hidden_size);
    q_a_layernorm_ = &add_norm_weight(store, prefix + ".q_a_layernorm.weight", *c.q_lora_rank);
    q_b_proj_ = matrix("q_b_proj", q_width, *c.q_lora_rank);
  } else {
    q_proj_ = matrix("q_proj", q_width, c.hidden_size);
  }
  kv_a_proj_ = matrix("kv_a_proj_with_mqa", c.kv_lora_rank + c.rope_dim, c.hidden_size);
  kv_a_layernorm_ = &add_norm_weight(store, prefix + ".kv_a_layernorm.weight", c.kv_lora_rank);
  kv_b_proj_ = matrix("kv_b_proj", c.heads * (c.nope_dim + c.value_dim), c.kv_lora_rank);
  o_proj_ = matrix("o_proj", c.hidden_size, c.heads * c.value_dim);
}

Var MlaAttention::queries(Tape& tape, const Var& x, std::int64_t length) const {
  Var q;
  if (q_proj_) {
    q = ops::linear(tape, x, *q_proj_);
  } else {
    const Var latent =
        ops::rms_norm(tape, ops::linear(tape, x, *q_a_proj_), q_a_layernorm_, config_.rms_norm_eps);
    q = ops::linear(tape, latent, *q_b_proj_);
    tape.release({latent}, Recompute::Norm);
  }
  return ops::rope(tape, q, config_.heads, config_.nope_dim, config_.nope_dim + config_.rope_dim, length,
                   config_.rope_theta, ops::RopePairing::Interleaved);
}

Var MlaAttention::forward(Tape& tape, const Var& x, const Context& context) {
  const MlaConfig& c = config_;
  const std::int64_t length = context.sequences.length;
  const Var q = queries(tape, x, length);
  const Var compressed = ops::linear(tape, x, *kv_a_proj_);
  const auto [latent, key] =
      ops::mla_latent(tape, compressed, *kv_a_layernorm_, c.rms_norm_eps, c.rope_theta, length);
  const Var kv = ops::linear(tape, latent, *kv_b_proj_);
  tape.release({latent}, Recompute::Norm);
  const Var y = ops::mla_attention(tape, q, kv, key, {c.heads, c.nope_dim, c.rope_dim, c.value_dim},
                                   context.sequences, 1 / std::sqrt(double(c.nope_dim + c.rope_dim)));
  const Var out = ops::linear(tape, y, *o_proj_);
  tape.release({y}, Recompute::Attention);
  return out;
}

GqaAttention::GqaAttention(ParameterStore& store, const std::string& prefix, const GqaConfig& config)
    : config_(config) {
  const GqaConfig& c = config_;
  const Matrices matrix{store, prefix, c.init_std};
  q_proj_ = matrix("q_proj", c.heads * c.head_dim, c.hidden_size);
  k_proj_ = matrix("k_proj", c.key_heads * c.head_dim, c.hidden_size);
  v_proj_ = matrix("v_proj", c.key_heads * c.head_dim, c.hidden_size);
  o_proj_ = matrix("o_proj", c.hidden_size, c.heads * c.head_dim);
}

Var GqaAttention::forward(Tape& tape, const Var& x, const Context& context) {
  const GqaConfig& c = config_;
  const std::int64_t length = context.sequences.length;
  const auto turned = [&](Parameter& w, std::int64_t heads) {
    return ops::rope(tape, ops::linear(tape, x, w), heads, 0, c.head_dim, length, c.rope_theta,
                     ops::RopePairing::Half);
  };
  const Var q = turned(*q_proj_, c.heads), k = turned(*k_proj_, c.key_heads);
  const Var v = ops::linear(tape, x, *v_proj_);
  const Var y = ops::gqa_attention(tape, q, k, v, {c.heads, c.key_heads, c.head_dim}, context.sequences,
                                   1 / std::sqrt(double(c.head_dim)));
  const Var out = ops::linear(tape, y, *o_proj_);
  tape.release({y}, Recompute::Attention);
  return out;
}

}  // namespace strata::nn
