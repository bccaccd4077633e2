// Reductions over a warp and over a block in a fixed order: the same bits each time, in every lane.
// For float, double and integers. All lanes of the warp, or all threads of the block, must call.
#pragma once
#include "kernels/cuda/dialect.h"

namespace strata::cuda {

struct Plus {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// Butterfly: in each round lane i meets lane i ^ lanes, and both compute the same (combine must commute).
template <class T, class Combine>
__device__ __forceinline__ T warp_reduce(T value, Combine combine, Site site = Site::current()) {
  UNROLL for (int lanes = 16; lanes > 0; lanes /= 2) value =
      combine(value, shuffle_xor(kFullWarp, value, lanes, site));
  return value;
}
template <class T>
__device__ __forceinline__ T warp_sum(T value, Site site = Site::current()) {
  return warp_reduce(value, Plus(), site);
}
template <class T>
__device__ __forceinline__ T warp_max(T value, Site site = Site::current()) {
  return warp_reduce(value, Larger(), site);
}

// 32 sums at once, 31 exchanges instead of 160: lane l gets the sum over the lanes of values[l]. In each
// round a lane keeps one half of its values and gives the other half away. `values` is overwritten. (The
// rounds are a recursion so that every index is a constant and the values stay in registers.)
template <int kHalf = 16, class T>
__device__ __forceinline__ T warp_sum_each(T (&values)[32], Site site = Site::current()) {
  const bool upper = (int(threadIdx.x) & kHalf) != 0;
  UNROLL for (int i = 0; i < kHalf; ++i) {
    const T kept = upper ? values[i + kHalf] : values[i], given = upper ? values[i] : values[i + kHalf];
    values[i] = kept + shuffle_xor(kFullWarp, given, kHalf, site);
  }
  if constexpr (kHalf > 1) return warp_sum_each<kHalf / 2>(values, site);
  return values[0];
}

// A field of the kernel's shared struct; one serves any number of reductions, one after another.
template <class T>
struct BlockReduce {
  T of_warp[32];
};

// First each warp, then the warps' results by every warp alike. The result depends on the number of warps.
// The block is one-dimensional, of whole warps. Two block barriers, the second so that `scratch` is free
// again.
template <class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, T neutral, BlockReduce<T>& scratch, Combine combine,
                                          Site site) {
  KERNEL_CHECK(blockDim.x % 32 == 0 && blockDim.y == 1 && blockDim.z == 1);
  const int warps = int(blockDim.x) / 32, warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  value = warp_reduce(value, combine, site);
  if (lane == 0) scratch.of_warp[warp] = value;
  sync_block(site);
  const T all = warp_reduce(lane < warps ? scratch.of_warp[lane] : neutral, combine, site);
  sync_block(site);
  return all;
}
template <class T>
__device__ __forceinline__ T block_sum(T value, BlockReduce<T>& scratch, Site site = Site::current()) {
  return block_reduce(value, T(0), scratch, Plus(), site);
}
// `lowest` is what a thread without elements brings: -INFINITY for most uses.
template <class T>
__device__ __forceinline__ T block_max(T value, T lowest, BlockReduce<T>& scratch,
                                       Site site = Site::current()) {
  return block_reduce(value, lowest, scratch, Larger(), site);
}

}  // namespace strata::cuda
