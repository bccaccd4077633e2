// The attention branch: projections in, positions, attention, projection out. x [T,D] -> [T,D], the norm
// before it is not part of it. Weight names are those of DeepSeek's (mla) and Llama's (gqa) checkpoints.
#pragma once
#include <optional>
#include <string>

#include "autograd/parameter.h"
#include "autograd/tape.h"
#include "nn/context.h"

namespace strata::nn {

class Attention {
 public:
  virtual ~Attention() = default;
  virtual Var forward(Tape& tape, const Var& x, const Context& context) = 0;
};

struct MlaConfig {
  std::int64_t hidden_size = 0, heads = 0;
  std::optional<std::int64_t> q_lora_rank;  // unset: queries come straight from x
  std::int64_t kv_lora_rank = 0;
  std::int64_t nope_dim = 0, rope_dim = 0, value_dim = 0;  // of a head
  double rms_norm_eps = 1e-6, rope_theta = 10000, init_std = 0.006;
};

// Multi-head latent attention, DeepSeek-V2, arXiv 2405.04434, section 2.1.
class MlaAttention final : public Attention {
 public:
  // `prefix` such as "model.layers.3.self_attn".
  MlaAttention(ParameterStore& store, const std::string& prefix, const MlaConfig& config);
  Var forward(Tape& tape, const Var& x, const Context& context) override;

 private:
  Var queries(Tape& tape, const Var& x, const Sequences& sequences) const;
  // Heads' keys and values made from the latents, or the latents read as they are: the same up to rounding.
  Var expanded(Tape& tape, const Var& q, const Var& latent, const Var& key, const Sequences& s) const;
  Var absorbed(Tape& tape, const Var& q, const Var& latent, const Var& key, const Sequences& s) const;
  bool absorbs(const Sequences& s) const;
  double scale() const;

  MlaConfig config_;
  Parameter* q_proj_ = nullptr;  // without a query rank, else the next three
  Parameter *q_a_proj_ = nullptr, *q_a_layernorm_ = nullptr, *q_b_proj_ = nullptr;
  Parameter *kv_a_proj_, *kv_a_layernorm_, *kv_b_proj_, *o_proj_;
};

struct GqaConfig {
  std::int64_t hidden_size = 0, heads = 0, key_heads = 0, head_dim = 0;
  double rope_theta = 10000, init_std = 0.006;
};

// Grouped-query attention, Ainslie et al., arXiv 2305.13245, with Llama's rotary pairs (i, i + dim/2).
class GqaAttention final : public Attention {
 public:
  GqaAttention(ParameterStore& store, const std::string& prefix, const GqaConfig& config);
  Var forward(Tape& tape, const Var& x, const Context& context) override;

 private:
  GqaConfig config_;
  Parameter *q_proj_, *k_proj_, *v_proj_, *o_proj_;
};

}  // namespace strata::nn
