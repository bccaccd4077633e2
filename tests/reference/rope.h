// Rotary position embedding: pair i turns by t · theta^(−2i/dim), t = position in its sequence.
#pragma once

#include "reference/array.h"

namespace strata::reference {

enum class RopePairs {
  kInterleaved,  ///< pairs (2i, 2i + 1), DeepSeek
  kHalf,         ///< pairs (i, i + dim/2), Llama
};

/// x [T, H, D] -> same shape; in every head the `dim` components from `first` on are rotated, the others
/// kept. Token row r has position r mod sequence_length.
Array rope(const Array& x, int64_t first, int64_t dim, double theta, int64_t sequence_length,
           RopePairs pairs);

}  // namespace strata::reference
