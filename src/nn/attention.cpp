#include "nn/attention.h"

#include <cmath>

#include "nn/norm.h"
#include "ops/attention.h"
#include "ops/head_linear.h"
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

Var MlaAttention::queries(Tape& tape, const Var& x, const Sequences& s) const {
  Var q;
  if (q_proj_) {
    q = ops::linear(tape, x, *q_proj_);
  } else {
    const Var latent =
        ops::rms_norm(tape, ops::linear(tape, x, *q_a_proj_), q_a_layernorm_, config_.rms_norm_eps);
    q = ops::linear(tape, latent, *q_b_proj_);
    tape.release({latent}, Recompute::Norm);
  }
  return ops::rope(tape, q, config_.heads, config_.nope_dim, config_.nope_dim + config_.rope_dim, s.length,
                   config_.rope_theta, ops::RopePairing::Interleaved, s.past);
}

Var MlaAttention::forward(Tape& tape, const Var& x, const Context& context) {
  const MlaConfig& c = config_;
  const Sequences& s = context.sequences;
  const Var q = queries(tape, x, s);
  const Var compressed = ops::linear(tape, x, *kv_a_proj_);
  const ops::MlaLatent row =
      ops::mla_latent(tape, compressed, *kv_a_layernorm_, c.rms_norm_eps, c.rope_theta, s.length, s.past);
  const Var latent = context.remembered(tape, *kv_a_layernorm_, row.latent);
  const Var key = context.remembered(tape, *kv_a_proj_, row.key);
  const Var y = absorbs(s) ? absorbed(tape, q, latent, key, s) : expanded(tape, q, latent, key, s);
  const Var out = ops::linear(tape, y, *o_proj_);
  tape.release({y}, Recompute::Attention);
  return out;
}

double MlaAttention::scale() const { return 1 / std::sqrt(double(config_.nope_dim + config_.rope_dim)); }

Var MlaAttention::expanded(Tape& tape, const Var& q, const Var& latent, const Var& key,
                           const Sequences& s) const {
  const MlaConfig& c = config_;
  const Var kv = ops::linear(tape, latent, *kv_b_proj_);
  tape.release({latent}, Recompute::Norm);
  return ops::mla_attention(tape, q, kv, key, {c.heads, c.nope_dim, c.rope_dim, c.value_dim}, s, scale());
}

// q.(W_k latent) = (q W_k).latent, and sum_j p_j W_v latent_j = W_v sum_j p_j latent_j. DeepSeek-V2,
// section 2.1.2.
Var MlaAttention::absorbed(Tape& tape, const Var& q, const Var& latent, const Var& key,
                           const Sequences& s) const {
  const MlaConfig& c = config_;
  const ops::HeadRows keys{c.heads, 0, c.nope_dim}, values{c.heads, c.nope_dim, c.nope_dim + c.value_dim};
  const Var asked = ops::head_linear(tape, q, *kv_b_proj_, keys);
  const Var found = ops::latent_attention(tape, asked, latent, key, c.heads, s, scale());
  return ops::head_linear_transposed(tape, found, *kv_b_proj_, values);
}

// A latent takes R (nope + value) products of a head to expand, and saves 2 R - nope - value with every
// query.
bool MlaAttention::absorbs(const Sequences& s) const {
  const std::int64_t R = config_.kv_lora_rank, both = config_.nope_dim + config_.value_dim;
  return s.past > 0 && s.length * (2 * R - both) < R * both;
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
  const Sequences& s = context.sequences;
  const auto turned = [&](Parameter& w, std::int64_t heads) {
    return ops::rope(tape, ops::linear(tape, x, w), heads, 0, c.head_dim, s.length, c.rope_theta,
                     ops::RopePairing::Half, s.past);
  };
  const Var q = turned(*q_proj_, c.heads);
  const Var k = context.remembered(tape, *k_proj_, turned(*k_proj_, c.key_heads));
  const Var v = context.remembered(tape, *v_proj_, ops::linear(tape, x, *v_proj_));
  const Var y = ops::gqa_attention(tape, q, k, v, {c.heads, c.key_heads, c.head_dim}, s,
                                   1 / std::sqrt(double(c.head_dim)));
  const Var out = ops::linear(tape, y, *o_proj_);
  tape.release({y}, Recompute::Attention);
  return out;
}

}  // namespace strata::nn
