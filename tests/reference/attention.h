// Causal softmax attention inside sequences and documents, with grouped keys and an optional shared key part.
#pragma once

#include "reference/array.h"

namespace strata::reference {

struct AttentionResult {
  Array out;  ///< [T, H, Dv]
  Array lse;  ///< [T, H], log of the sum of exp(scale · q·k) over the visible keys
};

/// q [T, H, Dq], k [T, Hk, Dk], k_shared [T, Dr] or empty, v [T, Hk, Dv], Dq = Dk + Dr.
/// Query head h uses key head h / (H / Hk); its key is k | k_shared. T is a multiple of `sequence_length`.
/// doc_ids [T] or empty: a token sees earlier tokens (and itself) of its sequence with its own document id.
AttentionResult attention(const Array& q, const Array& k, const Array& k_shared, const Array& v, double scale,
                          int64_t sequence_length, const Ids& doc_ids = {});

}  // namespace strata::reference
