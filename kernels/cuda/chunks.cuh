// Sums over tokens: chunks that depend on the number of tokens alone are summed each by itself, and then in
// chunk order. The same bits whatever runs when.
#pragma once
#include "kernels/cuda/dialect.h"

namespace strata::cuda {

// At most 64 chunks of at least 16 tokens; whole tiles of four.
struct TokenChunks {
  std::int64_t tokens, size, count;
  explicit TokenChunks(std::int64_t n)
      : tokens(n),
        size(((n + 63) / 64 < 16 ? 16 : (n + 63) / 64 + 3) / 4 * 4),
        count((n + size - 1) / size) {}
  __device__ std::int64_t begin(std::int64_t chunk) const { return chunk * size; }
  __device__ std::int64_t end(std::int64_t chunk) const {
    return tokens < (chunk + 1) * size ? tokens : (chunk + 1) * size;
  }
};

// parts[chunk, i] = sum of x[t, i] over the chunk's tokens, x [tokens, width].
template <class A>
__global__ void sum_tokens_kernel(const A* x, TokenChunks chunks, std::int64_t width, A* parts) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x, chunk = blockIdx.y;
  if (i >= width) return;
  A sum = 0;
  for (std::int64_t t = chunks.begin(chunk); t < chunks.end(chunk); ++t) sum += x[t * width + i];
  parts[chunk * width + i] = sum;
}

// to[i] = sum over chunks of parts[chunk * stride + i], or += where it accumulates.
template <class A>
__global__ void sum_chunks_kernel(const A* parts, std::int64_t chunks, std::int64_t stride,
                                  std::int64_t width, A* to, bool accumulate) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= width) return;
  A sum = accumulate ? to[i] : A(0);
  for (std::int64_t c = 0; c < chunks; ++c) sum += parts[c * stride + i];
  to[i] = sum;
}
template <class A>
void sum_chunks(StreamHandle stream, const A* parts, std::int64_t chunks, std::int64_t stride,
                std::int64_t width, A* to, bool accumulate, Site site = Site::current()) {
  launch(sum_chunks_kernel<A>, {blocks_for(width, 128), 128, 0, stream, site}, parts, chunks, stride, width,
         to, accumulate);
}

}  // namespace strata::cuda
