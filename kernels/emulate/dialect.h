// The dialect for a host compiler: kernels run on the emulator.
#pragma once
#include "kernels/cuda/runtime.h"
#include "kernels/emulate/builtins.h"

#define UNROLL
#define KERNEL_CHECK(condition) ((condition) ? void() : ::strata::cuda::fail_check(#condition))

namespace strata::emulate {

// Queues a kernel on a stream of an emulated device; `body` is what each thread runs.
void launch(cuda::StreamHandle stream, const GridShape& shape, std::function<void()> body);

}  // namespace strata::emulate

namespace strata::cuda {

// The block's shared memory, uninitialised, as the one struct of this kernel.
template <class Scratch>
Scratch& shared() {
  static_assert(alignof(Scratch) <= 128);
  return *reinterpret_cast<Scratch*>(emulate::thread().block->shared(typeid(Scratch), sizeof(Scratch)));
}

// Barriers and shuffles for helpers that say where they were called.
inline void sync_block(Site site) { __syncthreads(site); }
template <class T>
T shuffle_xor(unsigned mask, T value, int lanes, Site site) {
  return __shfl_xor_sync(mask, value, lanes, site);
}

template <class... Parameters>
void start(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
           StreamHandle stream, Site site, std::type_identity_t<Parameters>... arguments) {
  emulate::launch(stream, {grid, block, std::int64_t(shared_bytes), site}, [=] { kernel(arguments...); });
}

}  // namespace strata::cuda
