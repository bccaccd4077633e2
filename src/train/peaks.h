// What this machine reaches at best, measured: the roofs that speeds are compared with.
#pragma once
#include "base/dtype.h"

namespace strata::train {

// Floating-point operations per second of the best of some products of [rows, size] and [size, size] with the
// threads of the caller, in `compute`, or in float32 where bfloat16 is slower.
double gemm_peak(DType compute, std::int64_t rows, std::int64_t size);
// The best of square products of 512, 1024 and 2048.
double square_gemm_peak(DType compute);
// Bytes per second, read and written, of copying memory beyond any cache.
double copy_peak();

}  // namespace strata::train
