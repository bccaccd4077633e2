// The dialect for nvcc: CUDA itself, and the few words that CUDA does not have.
#pragma once
#include <cuda_runtime.h>

#include <cassert>
#include <concepts>

#include "base/error.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/site.h"

#define UNROLL _Pragma("unroll")
// Debug builds only: device assertions cost registers.
#define KERNEL_CHECK(condition) assert(condition)

namespace strata::cuda {

// The block's shared memory, uninitialised, as the one struct of this kernel.
template <class Scratch>
__device__ __forceinline__ Scratch& shared() {
  static_assert(alignof(Scratch) <= 128);
  extern __shared__ __align__(128) unsigned char strata_shared[];
  return *reinterpret_cast<Scratch*>(strata_shared);
}

// Barriers and shuffles for helpers that say where they were called; here the place is dropped.
__device__ __forceinline__ void sync_block(Site) { __syncthreads(); }
template <class T>
__device__ __forceinline__ T shuffle_xor(unsigned mask, T value, int lanes, Site) {
  return __shfl_xor_sync(mask, value, lanes);
}

// Adds to memory that other threads add to at the same time; returns what was there before.
template <std::integral T>
__device__ __forceinline__ T atomic_add(T* sum, T value) {
  if constexpr (sizeof(T) == 8) {
    using Word = unsigned long long;
    return T(atomicAdd(reinterpret_cast<Word*>(sum), Word(value)));
  } else {
    return atomicAdd(sum, value);
  }
}

template <class... Parameters>
void start(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
           StreamHandle stream, Site site, std::type_identity_t<Parameters>... arguments) {
  constexpr std::size_t kWithoutAsking = 48 << 10;
  cudaError_t status = cudaSuccess;
  if (shared_bytes > kWithoutAsking)
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes));
  if (status == cudaSuccess) {
    kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
    status = cudaGetLastError();
  }
  if (status != cudaSuccess)
    throw Error(concat("launch in ", site.function, " at ", site.file, ":", site.line, ": ",
                       cudaGetErrorString(status)));
}

}  // namespace strata::cuda
