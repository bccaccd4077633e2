// Multi-head latent attention, grouped-query attention, dense and mixture-of-experts MLP.
#include "reference/model_branch.h"

#include <cmath>

#include "reference/attention.h"
#include "reference/linear.h"
#include "reference/moe.h"
#include "reference/rms_norm.h"
#include "reference/rope.h"
#include "reference/swiglu.h"

namespace strata::reference {
namespace {

/// Components first .. first+count−1 of the last axis: x [T, H, W] -> [T, H, count].
Array slice_last(const Array& x, int64_t first, int64_t count) {
  Array part({x.dim(0), x.dim(1), count});
  for (int64_t t = 0; t < part.dim(0); ++t) {
    for (int64_t h = 0; h < part.dim(1); ++h) {
      for (int64_t c = 0; c < count; ++c) part(t, h, c) = x(t, h, first + c);
    }
  }
  return part;
}

Array latent_attention(const ModelSpec& spec, const Weights& weights, const std::string& prefix,
                       const Array& x, int64_t length, const Ids& doc_ids) {
  const auto weight = [&](const char* name) -> const Array& { return weights.at(prefix + name + ".weight"); };
  const int64_t tokens = x.dim(0), heads = spec.num_attention_heads, rank = spec.kv_lora_rank;
  const int64_t nope = spec.qk_nope_head_dim, rot = spec.qk_rope_head_dim, dv = spec.v_head_dim;
  Array q;
  if (spec.q_lora_rank > 0) {
    q = linear(rms_norm(linear(x, weight("q_a_proj")), weight("q_a_layernorm"), spec.rms_norm_eps),
               weight("q_b_proj"));
  } else {
    q = linear(x, weight("q_proj"));
  }
  q = rope(q.reshaped({tokens, heads, nope + rot}), nope, rot, spec.rope_theta, length,
           RopePairs::kInterleaved);
  const Array compressed = linear(x, weight("kv_a_proj_with_mqa")).reshaped({tokens, 1, rank + rot});
  const Array key_rope =
      rope(slice_last(compressed, rank, rot), 0, rot, spec.rope_theta, length, RopePairs::kInterleaved);
  const Array latent = rms_norm(slice_last(compressed, 0, rank), weight("kv_a_layernorm"), spec.rms_norm_eps);
  const Array kv = linear(latent, weight("kv_b_proj")).reshaped({tokens, heads, nope + dv});
  const double scale = 1.0 / std::sqrt(static_cast<double>(nope + rot));
  const Array out = attention(q, slice_last(kv, 0, nope), key_rope.reshaped({tokens, rot}),
                              slice_last(kv, nope, dv), scale, length, doc_ids)
                        .out;
  return linear(out.reshaped({tokens, heads * dv}), weight("o_proj"));
}

Array grouped_attention(const ModelSpec& spec, const Weights& weights, const std::string& prefix,
                        const Array& x, int64_t length, const Ids& doc_ids) {
  const auto weight = [&](const char* name) -> const Array& { return weights.at(prefix + name + ".weight"); };
  const int64_t tokens = x.dim(0), heads = spec.num_attention_heads;
  const int64_t key_heads = spec.num_key_value_heads > 0 ? spec.num_key_value_heads : heads;
  const int64_t width = spec.head_dim > 0 ? spec.head_dim : spec.hidden_size / heads;
  const Array q = linear(x, weight("q_proj")).reshaped({tokens, heads, width});
  const Array k = linear(x, weight("k_proj")).reshaped({tokens, key_heads, width});
  const Array v = linear(x, weight("v_proj")).reshaped({tokens, key_heads, width});
  const Array out = attention(rope(q, 0, width, spec.rope_theta, length, RopePairs::kHalf),
                              rope(k, 0, width, spec.rope_theta, length, RopePairs::kHalf), {}, v,
                              1.0 / std::sqrt(static_cast<double>(width)), length, doc_ids)
                        .out;
  return linear(out.reshaped({tokens, heads * width}), weight("o_proj"));
}

Array named_mlp(const Weights& weights, const std::string& prefix, const Array& x) {
  return swiglu_mlp(x, weights.at(prefix + "gate_proj.weight"), weights.at(prefix + "up_proj.weight"),
                    weights.at(prefix + "down_proj.weight"));
}

}  // namespace

Array attention_branch(const ModelSpec& spec, const Weights& weights, const std::string& prefix,
                       const Array& x, int64_t length, const Ids& doc_ids) {
  if (spec.attention == "mla") return latent_attention(spec, weights, prefix, x, length, doc_ids);
  require(spec.attention == "gqa", "unknown attention");
  return grouped_attention(spec, weights, prefix, x, length, doc_ids);
}

MlpBranch mlp_branch(const ModelSpec& spec, const Weights& weights, const std::string& prefix, bool is_moe,
                     const Array& x, int64_t length) {
  if (!is_moe) return {named_mlp(weights, prefix, x), {}};
  const RouterSpec router{spec.num_experts_per_tok, spec.scoring_func,      spec.n_group,
                          spec.topk_group,          spec.norm_topk_prob,    spec.routed_scaling_factor,
                          spec.seq_aux_loss_coef,   spec.router_z_loss_coef};
  const Array bias =
      spec.scoring_func == "sigmoid" ? weights.at(prefix + "gate.e_score_correction_bias") : Array();
  MlpBranch result;
  result.routed = route(x, weights.at(prefix + "gate.weight"), bias, router, length);
  Experts experts;
  for (int64_t e = 0; e < spec.n_routed_experts; ++e) {
    const std::string expert = prefix + "experts." + std::to_string(e) + ".";
    experts.gate.push_back(weights.at(expert + "gate_proj.weight"));
    experts.up.push_back(weights.at(expert + "up_proj.weight"));
    experts.down.push_back(weights.at(expert + "down_proj.weight"));
  }
  result.out = moe(x, experts, result.routed.experts, result.routed.gates);
  if (spec.n_shared_experts > 0)
    result.out = add(result.out, named_mlp(weights, prefix + "shared_experts.", x));
  return result;
}

}  // namespace strata::reference
