// Loops over tokens. Reductions use chunks that depend on the sizes alone and are added in chunk order, so
// that the bits do not depend on the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <exception>

#include "base/view.h"

namespace strata::kernels {

// f(i) for i in [0, n), spread over the threads. An exception leaves the parallel region as one.
template <class F>
void parallel_for(std::int64_t n, F&& f) {
  std::exception_ptr error;
#pragma omp parallel for schedule(static) if (n > 1)
  for (std::int64_t i = 0; i < n; ++i) {
    try {
      f(i);
    } catch (...) {
#pragma omp critical(strata_parallel_error)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// [0, n) cut into at most `most` chunks of at least `least`.
struct Chunks {
  std::int64_t n, size, count;
  explicit Chunks(std::int64_t n_, std::int64_t least = 16, std::int64_t most = 64)
      : n(n_),
        size(std::max<std::int64_t>({least, (n_ + most - 1) / most, 1})),
        count((n_ + size - 1) / size) {}
  std::int64_t begin(std::int64_t c) const { return c * size; }
  std::int64_t end(std::int64_t c) const { return std::min(n, (c + 1) * size); }
};

// f(begin, end) over pieces of [0, n): for loops whose elements do not depend on each other.
template <class F>
void parallel_elements(std::int64_t n, F&& f) {
  const Chunks chunks(n, 1 << 14, 1 << 30);
  parallel_for(chunks.count, [&](std::int64_t c) { f(chunks.begin(c), chunks.end(c)); });
}

// out[i] += sum over chunks of partial[c * width + i], in chunk order.
template <class A>
void add_partials(const A* partial, std::int64_t count, std::int64_t width, A* out) {
  const Chunks columns(width, 256, 256);
  parallel_for(columns.count, [&](std::int64_t k) {
    for (std::int64_t c = 0; c < count; ++c)
      for (std::int64_t i = columns.begin(k); i < columns.end(k); ++i) out[i] += partial[c * width + i];
  });
}

// Stores a gradient element as its Write mode says.
template <class T, class A>
inline void put(T& to, A value, Write mode) {
  to = mode == Write::Accumulate ? T(A(to) + value) : T(value);
}

}  // namespace strata::kernels
