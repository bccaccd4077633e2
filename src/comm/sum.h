// Sums over ranks, element by element and in the order of ranks; bfloat16 adds in float32 and rounds once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace strata::comm {

// out[i] = terms[0][i] + terms[1][i] + ...; out may be one of the terms.
void sum_terms(DType type, const std::vector<const std::byte*>& terms, std::byte* out, std::int64_t count);

}  // namespace strata::comm
