// Causal attention inside sequences and documents, without a matrix of all scores. Vaswani et al., arXiv
// 1706.03762; grouped queries: Ainslie et al., arXiv 2305.13245; latent keys and values: DeepSeek-V2, arXiv
// 2405.04434.
#pragma once
#include "autograd/tape.h"

namespace strata::ops {

// Widths of a head.
struct MlaHeads {
  std::int64_t heads = 0, nope = 0, rope = 0, value = 0;
};
struct GqaHeads {
  std::int64_t heads = 0, key_heads = 0, dim = 0;
};

// q [T, H*(nope+rope)], kv [T, H*(nope+value)] (a head's key, then its value), k_rope [T, rope] shared by all
// heads; q and k_rope are turned already. Returns [T, H*value], which can be released. The memory of
// sequences.documents belongs to the caller and must last until backward is done. With sequences.past, which
// has no backward, kv and k_rope have the rows of earlier tokens too, before the others.
Var mla_attention(Tape& tape, const Var& q, const Var& kv, const Var& k_rope, const MlaHeads& dims,
                  const Sequences& sequences, double scale);

// q [T, H*dim], k and v [T, Hk*dim], q and k turned already; query head h reads key head h / (H / Hk).
// Returns [T, H*dim]; otherwise as above.
Var gqa_attention(Tape& tape, const Var& q, const Var& k, const Var& v, const GqaHeads& dims,
                  const Sequences& sequences, double scale);

// Latent attention where the heads' keys and values are the latent itself: q [T, H*(R+rope)], latent [S, R],
// k_rope [S, rope]. Returns [T, H*R].
Var latent_attention(Tape& tape, const Var& q, const Var& latent, const Var& k_rope, std::int64_t heads,
                     const Sequences& sequences, double scale);

}  // namespace strata::ops
