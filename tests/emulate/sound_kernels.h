// Kernels that keep the rules of the dialect.
#pragma once
#include <cstdint>

#include "base/bfloat16.h"
#include "kernels/cuda/runtime.h"

namespace strata::testing {

using cuda::StreamHandle;

// y [rows,width] = x / sqrt(mean(x^2) + eps), row by row. Element is float, double or bfloat16.
template <class Element>
void normalize_rows(StreamHandle stream, const Element* x, Element* y, std::int64_t rows, int width,
                    float eps);

// sums[b], largest[b] of the n = threads * blocks elements of block b, one each thread.
template <class T>
void reduce_blocks(StreamHandle stream, const T* x, T* sums, T* largest, std::int64_t blocks, int threads);

// c [16,8] = a [16,16] b^T, b [8,16], by one mma.
void multiply_tile(StreamHandle stream, const bfloat16* a, const bfloat16* b, float* c);

// y = x [4,128] through shared memory: each row is fetched by cp.async two rows ahead.
void copy_in_stages(StreamHandle stream, const float* x, float* y);

// What the warp operations give for lane numbers: [7,32] shfl, xor, up, down, ballot, any, all.
void warp_words(StreamHandle stream, int* y);

// counts[v] = how often v occurs in x [n].
void count_values(StreamHandle stream, const int* x, std::int64_t n, std::int64_t* counts);

// y[z][y][x] = linear index of the thread, over a 2 x 3 x 2 grid of 4 x 2 x 3 blocks.
void number_threads(StreamHandle stream, int* y);

// y = x in packs of four, n divisible by 4.
void copy_packed(StreamHandle stream, const float* x, float* y, std::int64_t n);

// y += a x.
void add_scaled(StreamHandle stream, float a, const float* x, float* y, std::int64_t n);

}  // namespace strata::testing
