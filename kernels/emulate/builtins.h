// CUDA's words for a host compiler: what kernels may use, and no more. `__shared__`, `<<<>>>`, unmasked warp
// operations and floating-point atomics are missing on purpose.
#pragma once
#include <atomic>
#include <bit>
#include <concepts>
#include <cstdint>

#include "kernels/emulate/block.h"
#include "kernels/emulate/exchange.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define threadIdx (::strata::emulate::thread().index)
#define blockIdx (::strata::emulate::thread().block->index())
#define blockDim (::strata::emulate::thread().block->shape().block)
#define gridDim (::strata::emulate::thread().block->shape().grid)

namespace strata::cuda {

inline void __syncthreads(Site site = Site::current()) { emulate::thread().block->block_barrier(site); }

inline void __syncwarp(unsigned mask = 0xffffffffu, Site site = Site::current()) {
  emulate::Block& block = *emulate::thread().block;
  block.leave(block.meet(mask, nullptr, 0, "__syncwarp", site));
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, Site site = Site::current()) {
  return emulate::Exchange<T>(mask, value, "__shfl_sync", site)[source & 31];
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, Site site = Site::current()) {
  return emulate::Exchange<T>(mask, value, "__shfl_xor_sync", site)[emulate::thread().lane() ^ (lanes & 31)];
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, Site site = Site::current()) {
  const int lane = emulate::thread().lane(), source = lane - int(delta);
  return emulate::Exchange<T>(mask, value, "__shfl_up_sync", site)[source < 0 ? lane : source];
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, Site site = Site::current()) {
  const int lane = emulate::thread().lane(), source = lane + int(delta);
  return emulate::Exchange<T>(mask, value, "__shfl_down_sync", site)[source > 31 ? lane : source];
}

inline unsigned __ballot_sync(unsigned mask, int predicate, Site site = Site::current()) {
  const emulate::Exchange<bool> votes(mask, predicate != 0, "__ballot_sync", site);
  unsigned ballot = 0;
  for (unsigned rest = mask; rest != 0; rest &= rest - 1)
    if (votes[std::countr_zero(rest)]) ballot |= rest & -rest;
  return ballot;
}

inline int __any_sync(unsigned mask, int predicate, Site site = Site::current()) {
  return __ballot_sync(mask, predicate, site) != 0;
}

inline int __all_sync(unsigned mask, int predicate, Site site = Site::current()) {
  return __ballot_sync(mask, predicate, site) == mask;
}

inline int __popc(unsigned bits) { return std::popcount(bits); }

// Adds to memory that other threads add to at the same time; returns what was there before.
template <std::integral T>
T atomic_add(T* sum, T value) {
  return std::atomic_ref<T>(*sum).fetch_add(value);
}

[[noreturn]] inline void fail_check(const char* condition, Site site = Site::current()) {
  throw Error(concat(site.file, ":", site.line, ": kernel check failed: ", condition, "; ",
                     emulate::name_of(emulate::thread())));
}

}  // namespace strata::cuda
