// Matrix products, several at once. C is cut into tiles whose size depends on the shapes alone, and one
// thread computes a tile with a single-threaded BLAS call: the bits do not depend on the number of threads.
#pragma once
#include <vector>

#include "kernels/jobs.h"

namespace strata::kernels {

// Runs independent products; their results must not overlap.
void multiply(CpuStream& stream, const std::vector<Gemm>& products);

}  // namespace strata::kernels
