#include "emulate/sound_kernels.h"

#include "kernels/cuda/dialect.h"
#include "kernels/cuda/ptx.h"
#include "kernels/cuda/reduce.cuh"

namespace strata::testing {
namespace {

using namespace strata::cuda;

template <class T>
struct NormScratch {
  BlockReduce<T> reduce;
};

// One block a row.
template <class Element>
__global__ void normalize_kernel(const Element* x, Element* y, int width, float eps) {
  using T = Acc<Element>;
  auto& scratch = shared<NormScratch<T>>();
  const std::int64_t row = std::int64_t(blockIdx.x) * width;
  T squares = 0;
  for (int i = int(threadIdx.x); i < width; i += int(blockDim.x)) {
    const T value = T(x[row + i]);
    squares += value * value;
  }
  const T mean = block_sum(squares, scratch.reduce) / T(width);
  const T scale = T(1) / std::sqrt(mean + T(eps));
  for (int i = int(threadIdx.x); i < width; i += int(blockDim.x)) y[row + i] = Element(T(x[row + i]) * scale);
}

template <class T>
__global__ void reduce_kernel(const T* x, T* sums, T* largest) {
  auto& scratch = shared<NormScratch<T>>();
  const T value = x[std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x];
  const T sum = block_sum(value, scratch.reduce);
  const T most = block_max(value, T(-1e30), scratch.reduce);
  if (threadIdx.x == blockDim.x - 1) {
    sums[blockIdx.x] = sum;
    largest[blockIdx.x] = most;
  }
}

__global__ void multiply_kernel(const bf16* a, const bf16* b, float* c) {
  const int lane = int(threadIdx.x);
  FragmentC sum{};
  mma_m16n8k16(sum, load_a(a, 16, lane), load_b(b, 16, lane));
  store_c(c, 8, lane, sum);
}

constexpr int kRows = 4, kWidth = 128;
struct StageScratch {
  float row[2][kWidth];
};

__global__ void stages_kernel(const float* x, float* y) {
  auto& scratch = shared<StageScratch>();
  const int at = 4 * int(threadIdx.x);
  for (int row = 0; row < 2; ++row) {
    cp_async<16>(&scratch.row[row][at], x + row * kWidth + at);
    cp_async_commit();
  }
  for (int row = 0; row < kRows; ++row) {
    cp_async_wait<1>();
    __syncthreads();
    for (int i = 0; i < 4; ++i)
      y[row * kWidth + i * 32 + int(threadIdx.x)] = scratch.row[row % 2][i * 32 + int(threadIdx.x)];
    __syncthreads();
    if (row + 2 < kRows) cp_async<16>(&scratch.row[row % 2][at], x + (row + 2) * kWidth + at);
    cp_async_commit();
  }
}

__global__ void warp_words_kernel(int* y) {
  const int lane = int(threadIdx.x);
  y[lane] = __shfl_sync(kFullWarp, lane, 5);
  y[32 + lane] = __shfl_xor_sync(kFullWarp, lane, 3);
  y[64 + lane] = __shfl_up_sync(kFullWarp, lane, 2);
  y[96 + lane] = __shfl_down_sync(kFullWarp, lane, 2);
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  y[128 + lane] = int(__ballot_sync(half, lane % 2));
  y[160 + lane] = __any_sync(half, lane == 3);
  y[192 + lane] = __all_sync(half, lane < 16);
}

__global__ void count_kernel(const int* x, std::int64_t n, std::int64_t* counts) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) atomic_add(&counts[x[i]], std::int64_t(1));
}

__global__ void number_kernel(int* y) {
  const unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned at = ((blockIdx.z * blockDim.z + threadIdx.z) * height + row) * width + column;
  y[at] = int(at);
}

__global__ void packed_kernel(const float* x, float* y, std::int64_t packs) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < packs) store_pack(y + 4 * i, load_pack<4>(x + 4 * i));
}

__global__ void add_kernel(float a, const float* x, float* y, std::int64_t n) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

}  // namespace

template <class Element>
void normalize_rows(StreamHandle stream, const Element* x, Element* y, std::int64_t rows, int width,
                    float eps) {
  const std::size_t bytes = sizeof(NormScratch<Acc<Element>>);
  cuda::launch(normalize_kernel<Element>, {blocks_for(rows), 64, bytes, stream}, x, y, width, eps);
}
template void normalize_rows(StreamHandle, const float*, float*, std::int64_t, int, float);
template void normalize_rows(StreamHandle, const double*, double*, std::int64_t, int, float);
template void normalize_rows(StreamHandle, const bfloat16*, bfloat16*, std::int64_t, int, float);

template <class T>
void reduce_blocks(StreamHandle stream, const T* x, T* sums, T* largest, std::int64_t blocks, int threads) {
  cuda::launch(reduce_kernel<T>, {blocks_for(blocks), unsigned(threads), sizeof(NormScratch<T>), stream}, x,
               sums, largest);
}
template void reduce_blocks(StreamHandle, const float*, float*, float*, std::int64_t, int);
template void reduce_blocks(StreamHandle, const double*, double*, double*, std::int64_t, int);

void multiply_tile(StreamHandle stream, const bfloat16* a, const bfloat16* b, float* c) {
  cuda::launch(multiply_kernel, {1, 32, 0, stream}, a, b, c);
}
void copy_in_stages(StreamHandle stream, const float* x, float* y) {
  cuda::launch(stages_kernel, {1, 32, sizeof(StageScratch), stream}, x, y);
}
void warp_words(StreamHandle stream, int* y) { cuda::launch(warp_words_kernel, {1, 32, 0, stream}, y); }
void count_values(StreamHandle stream, const int* x, std::int64_t n, std::int64_t* counts) {
  cuda::launch(count_kernel, {blocks_for(n, 64), 64, 0, stream}, x, n, counts);
}
void number_threads(StreamHandle stream, int* y) {
  cuda::launch(number_kernel, {dim3(2, 3, 2), dim3(4, 2, 3), 0, stream}, y);
}
void copy_packed(StreamHandle stream, const float* x, float* y, std::int64_t n) {
  cuda::launch(packed_kernel, {blocks_for(n / 4, 64), 64, 0, stream}, x, y, n / 4);
}
void add_scaled(StreamHandle stream, float a, const float* x, float* y, std::int64_t n) {
  cuda::launch(add_kernel, {blocks_for(n, 128), 128, 0, stream}, a, x, y, n);
}

}  // namespace strata::testing
