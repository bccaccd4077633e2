// From M retrieved views to one sub-layer input: gated sum or mean.
#pragma once

#include "reference/array.h"

namespace strata::reference {

/// g = σ(scale · weight · RMSNorm(flatten z) + bias), the norm without weight.
/// z [T, M, D], weight [M, M·D], bias [M] -> [T, M].
Array fusion_gates(const Array& z, const Array& weight, double scale, const Array& bias, double eps);

/// h = sum over r of gates_r z_r: z [T, M, D], gates [T, M] -> [T, D].
Array fuse_gated(const Array& z, const Array& gates);

/// z [T, M, D] -> [T, D].
Array fuse_mean(const Array& z);

/// z [T, M, D] -> [T, D].
Array fuse_sum(const Array& z);

}  // namespace strata::reference
