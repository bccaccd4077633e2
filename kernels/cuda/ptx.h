// PTX instructions, each with its twin for the emulator.
#pragma once
#include "kernels/cuda/dialect.h"
#if !defined(__CUDACC__)
#include "kernels/emulate/async_copy.h"
#include "kernels/emulate/mma.h"
#endif

namespace strata::cuda {

// Fragments of mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"). With group = lane / 4, pair =
// lane % 4: c[i] is element (group + 8 * (i / 2), 2 * pair + i % 2); a register of A or B holds two
// neighbours in k.
struct FragmentA {
  std::uint32_t r[4];
};
struct FragmentB {
  std::uint32_t r[2];
};
struct FragmentC {
  float r[4];
};

// c [16,8] += a [16,16] b [16,8], bf16 factors, float sums. All 32 lanes call.
__device__ __forceinline__ void mma_m16n8k16(FragmentC& c, const FragmentA& a, const FragmentB& b,
                                             Site site = Site::current()) {
#if defined(__CUDA_ARCH__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
#elif !defined(__CUDACC__)
  emulate::mma_m16n8k16(c.r, a.r, b.r, site);
#endif
}

// Two neighbours in memory as one register. Aligned to 4 bytes.
__device__ __forceinline__ std::uint32_t load_pair(const bf16* at) {
  const Pack<bf16, 2> two = load_pack<2>(at);
  return std::uint32_t(two.at[0].bits) | std::uint32_t(two.at[1].bits) << 16;
}

// A from a row-major [16,16] tile and B from the row-major [8,16] tile of its transpose (weights as [N,K]);
// rows are `stride` elements apart, stride even.
__device__ __forceinline__ FragmentA load_a(const bf16* tile, int stride, int lane) {
  const bf16* upper = tile + (lane / 4) * stride + 2 * (lane % 4);
  const bf16* lower = upper + 8 * stride;
  return {{load_pair(upper), load_pair(lower), load_pair(upper + 8), load_pair(lower + 8)}};
}
__device__ __forceinline__ FragmentB load_b(const bf16* tile, int stride, int lane) {
  const bf16* column = tile + (lane / 4) * stride + 2 * (lane % 4);
  return {{load_pair(column), load_pair(column + 8)}};
}
__device__ __forceinline__ void store_c(float* tile, int stride, int lane, const FragmentC& c) {
  float* upper = tile + (lane / 4) * stride + 2 * (lane % 4);
  float* lower = upper + 8 * stride;
  upper[0] = c.r[0], upper[1] = c.r[1];
  lower[0] = c.r[2], lower[1] = c.r[3];
}

// Copies kBytes (4, 8 or 16, both sides aligned to it) from global to shared memory in the background. The
// bytes are there after cp_async_commit(), cp_async_wait() and, for other threads, a barrier.
template <int kBytes>
__device__ __forceinline__ void cp_async(void* to_shared, const void* from_global,
                                         Site site = Site::current()) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
#if defined(__CUDA_ARCH__)
  const auto to = unsigned(__cvta_generic_to_shared(to_shared));
  if constexpr (kBytes == 16)  // past the first-level cache
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from_global) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from_global), "n"(kBytes)
                 : "memory");
#elif !defined(__CUDACC__)
  emulate::async_copy(to_shared, from_global, kBytes, site);
#endif
}

// Closes the group of copies that this thread issued since the last commit.
__device__ __forceinline__ void cp_async_commit() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#elif !defined(__CUDACC__)
  emulate::async_commit();
#endif
}

// Waits for this thread's groups, except for the newest kLeft.
template <int kLeft = 0>
__device__ __forceinline__ void cp_async_wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#elif !defined(__CUDACC__)
  emulate::async_wait(kLeft);
#endif
}

}  // namespace strata::cuda
