#include "emulate/emulator/broken_kernels.h"

#include "kernels/cuda/dialect.h"
#include "kernels/cuda/ptx.h"
#include "kernels/cuda/reduce.cuh"

namespace strata::testing {
namespace {

using namespace strata::cuda;

struct Values {
  float at[64];
};
struct Others {
  int at[64];
};

__global__ void rotate_kernel(const float* x, float* y, int n, bool barrier) {
  auto& scratch = shared<Values>();
  const int i = int(threadIdx.x);
  if (i >= n) return;
  scratch.at[i] = x[i];
  if (barrier) __syncthreads();
  y[i] = scratch.at[(i + 1) % n];
}

__global__ void read_other_warp_kernel(float* y, bool barrier) {
  auto& scratch = shared<Values>();
  const int i = int(threadIdx.x);
  scratch.at[i] = float(i);
  __syncwarp();
  __syncwarp();
  if (barrier) __syncthreads();
  if (i < 32) y[i] = scratch.at[32 + i];
}

__global__ void rotate_in_warp_kernel(const float* x, float* y, bool barrier) {
  auto& scratch = shared<Values>();
  const int i = int(threadIdx.x);
  scratch.at[i] = 2 * x[i];
  if (barrier) __syncwarp();
  y[i] = scratch.at[(i + 1) % 32];
}

__global__ void fetch_kernel(const float* x, float* y, bool wait) {
  auto& scratch = shared<Values>();
  const int i = int(threadIdx.x);
  cp_async<4>(&scratch.at[i], x + i);
  cp_async_commit();
  if (wait) cp_async_wait();
  __syncthreads();
  y[i] = scratch.at[(i + 1) % 64];
}

__global__ void fetch_changing_kernel(float* x, float* y) {
  auto& scratch = shared<Values>();
  cp_async<16>(scratch.at, x);
  cp_async_commit();
  for (int i = 0; i < 4; ++i) x[i] = -1;
  cp_async_wait();
  for (int i = 0; i < 4; ++i) y[i] = scratch.at[i];
}

__global__ void diverge_kernel() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncwarp();
}

__global__ void leave_early_kernel() {
  if (threadIdx.x >= 20) return;
  __syncwarp();
}

__global__ void two_lines_kernel() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void meet_kernel() {
  if (threadIdx.x < 16)
    __syncwarp();
  else
    __syncwarp();
}

struct SumScratch {
  BlockReduce<float> reduce;
};

__global__ void two_sums_kernel() {
  auto& scratch = shared<SumScratch>();
  if (threadIdx.x < 32)
    block_sum(1.0f, scratch.reduce);
  else
    block_sum(2.0f, scratch.reduce);
}

__global__ void leave_between_kernel() {
  __syncthreads();
  if (threadIdx.x == 5) return;
  __syncthreads();
}

__global__ void name_others_kernel() {
  if (threadIdx.x < 4) __shfl_sync(0x7u, 1, 0);
}

__global__ void name_missing_kernel() { __shfl_sync(kFullWarp, 1, 0); }

__global__ void read_unnamed_kernel() {
  if (threadIdx.x < 16) __shfl_sync(0x0000ffffu, 1, 20);
}

__global__ void two_types_kernel() {
  shared<Values>().at[threadIdx.x] = 1;
  shared<Others>().at[threadIdx.x] = 1;
}

__global__ void values_kernel() { shared<Values>().at[threadIdx.x] = 1; }

__global__ void check_kernel() { KERNEL_CHECK(threadIdx.x + blockIdx.x != 7); }

__global__ void odd_address_kernel(const float* x) {
  auto& scratch = shared<Values>();
  cp_async<16>(&scratch.at[1], x);
}

__global__ void unaligned_kernel(const float* x) { load_pack<4>(x + 1); }

__global__ void nothing_kernel() {}

__global__ void ones_kernel(float* y, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = 1;
}

__global__ void past_shared_kernel(int n) {
  auto& scratch = shared<Values>();
  float* values = scratch.at;
  values[n + int(threadIdx.x)] = 1;
}

__global__ void stack_kernel(float* y) {
  float local[1024];
  for (int i = 0; i < 1024; ++i) local[i] = float(i + int(threadIdx.x));
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 1024; ++i) sum += local[i];
  __syncthreads();
  y[threadIdx.x] = sum;
}

}  // namespace

void rotate(StreamHandle stream, const float* x, float* y, int n, bool barrier) {
  cuda::launch(rotate_kernel, {1, 64, sizeof(Values), stream}, x, y, n, barrier);
}
void read_other_warp(StreamHandle stream, float* y, bool barrier) {
  cuda::launch(read_other_warp_kernel, {1, 64, sizeof(Values), stream}, y, barrier);
}
void rotate_in_warp(StreamHandle stream, const float* x, float* y, bool barrier) {
  cuda::launch(rotate_in_warp_kernel, {1, 32, sizeof(Values), stream}, x, y, barrier);
}
void fetch(StreamHandle stream, const float* x, float* y, bool wait) {
  cuda::launch(fetch_kernel, {1, 64, sizeof(Values), stream}, x, y, wait);
}
void fetch_changing_source(StreamHandle stream, float* x, float* y) {
  cuda::launch(fetch_changing_kernel, {1, 1, sizeof(Values), stream}, x, y);
}

void diverge(StreamHandle stream) { cuda::launch(diverge_kernel, {1, 32, 0, stream}); }
void leave_early(StreamHandle stream) { cuda::launch(leave_early_kernel, {1, 32, 0, stream}); }
void wait_on_two_lines(StreamHandle stream) { cuda::launch(two_lines_kernel, {1, 64, 0, stream}); }
void meet_on_two_lines(StreamHandle stream) { cuda::launch(meet_kernel, {1, 32, 0, stream}); }
void sum_on_two_lines(StreamHandle stream) {
  cuda::launch(two_sums_kernel, {1, 64, sizeof(SumScratch), stream});
}
void leave_between_barriers(StreamHandle stream) { cuda::launch(leave_between_kernel, {1, 64, 0, stream}); }
void name_others_only(StreamHandle stream) { cuda::launch(name_others_kernel, {1, 32, 0, stream}); }
void name_missing_lanes(StreamHandle stream) { cuda::launch(name_missing_kernel, {1, 40, 0, stream}); }
void read_unnamed_lane(StreamHandle stream) { cuda::launch(read_unnamed_kernel, {1, 32, 0, stream}); }

void use_memory_as_two_types(StreamHandle stream) {
  cuda::launch(two_types_kernel, {1, 64, sizeof(Values), stream});
}
void use_more_than_launched(StreamHandle stream) {
  cuda::launch(values_kernel, {1, 64, sizeof(Values) - 4, stream});
}
void fail_check_in_thread_7(StreamHandle stream) { cuda::launch(check_kernel, {1, 32, 0, stream}); }
void copy_to_odd_address(StreamHandle stream, const float* x) {
  cuda::launch(odd_address_kernel, {1, 1, sizeof(Values), stream}, x);
}
void load_unaligned_pack(StreamHandle stream, const float* x) {
  cuda::launch(unaligned_kernel, {1, 1, 0, stream}, x);
}

void launch_nothing(StreamHandle stream, unsigned blocks, unsigned threads, std::size_t shared_bytes) {
  cuda::launch(nothing_kernel, {blocks, threads, shared_bytes, stream});
}
void write_ones(StreamHandle stream, float* y, int n) {
  cuda::launch(ones_kernel, {blocks_for(n, 32), 32, 0, stream}, y, n);
}
void write_past_shared(StreamHandle stream) {
  cuda::launch(past_shared_kernel, {1, 1, sizeof(Values), stream}, 64);
}
void keep_local_arrays(StreamHandle stream, float* y) { cuda::launch(stack_kernel, {1, 64, 0, stream}, y); }

}  // namespace strata::testing
