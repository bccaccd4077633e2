// The one header a kernel file includes. nvcc sees CUDA; a host compiler sees the emulator (docs/kernels.md
// has the rules that kernels obey so that both mean the same).
//
//   auto& scratch = shared<Scratch>();                       in a kernel
//   cuda::launch(kernel<T>, {blocks_for(rows), 256, sizeof(Scratch), stream}, arguments...);
#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/site.h"

#if defined(__CUDACC__)
#include "kernels/cuda/dialect_nvcc.h"
#else
#include "kernels/emulate/dialect.h"
#endif

namespace strata::cuda {

using bf16 = bfloat16;

constexpr unsigned kFullWarp = 0xffffffffu;

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  StreamHandle stream = nullptr;
  Site site = Site::current();
};

// Puts a kernel on a stream. Throws Error if its shape is impossible; what goes wrong inside it,
// synchronize() throws.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), const Launch& on, std::type_identity_t<Parameters>... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "kernel arguments are copied bit by bit");
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "kernel arguments take 4 KiB at most");
  STRATA_CHECK(on.stream, "launch at ", on.site.file, ":", on.site.line, " without a stream");
  start(kernel, on.grid, on.block, on.shared_bytes, on.stream, on.site, arguments...);
}

// Blocks that cover `items` with `per_block` each: a grid's extent in x.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block = 1) {
  const std::int64_t blocks = (items + per_block - 1) / per_block;
  STRATA_CHECK(items > 0 && blocks <= 0x7fffffff, items, " items make no grid");
  return unsigned(blocks);
}

// N neighbours moved by one access; N * sizeof(T) is at most 16 bytes, and the pointers are aligned to it.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  static_assert(sizeof(T) * N <= 16);
  T at[N];
};
template <int N, class T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  KERNEL_CHECK(reinterpret_cast<std::uintptr_t>(from) % sizeof(Pack<T, N>) == 0);
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
  KERNEL_CHECK(reinterpret_cast<std::uintptr_t>(to) % sizeof(Pack<T, N>) == 0);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

}  // namespace strata::cuda
