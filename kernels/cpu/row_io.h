// Rows of any floating-point type as accumulator-typed buffers, so that a kernel whose inputs and gradients
// have different types is written once.
#pragma once
#include "base/view.h"

namespace strata::kernels {

template <class A>
void load_row(const ConstView& view, std::int64_t offset, std::int64_t n, A* to) {
  for_float(view.dtype, [&]<class T>() {
    const T* from = static_cast<const T*>(view.data) + offset;
    for (std::int64_t i = 0; i < n; ++i) to[i] = A(from[i]);
  });
}

template <class A>
void store_row(const View& view, std::int64_t offset, std::int64_t n, const A* from, Write mode) {
  for_float(view.dtype, [&]<class T>() {
    T* to = static_cast<T*>(view.data) + offset;
    if (mode == Write::Accumulate)
      for (std::int64_t i = 0; i < n; ++i) to[i] = T(A(to[i]) + from[i]);
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = T(from[i]);
  });
}

}  // namespace strata::kernels
