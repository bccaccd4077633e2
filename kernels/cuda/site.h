// A place in the source, taken where the call stands: a report then names the kernel's line and not the
// helper's.
//   template <class T> __device__ T warp_sum(T value, Site site = Site::current());
#pragma once

namespace strata::cuda {

struct Site {
  const char* file = "";
  const char* function = "";
  int line = 0;

  static constexpr Site current(const char* file = __builtin_FILE(),
                                const char* function = __builtin_FUNCTION(), int line = __builtin_LINE()) {
    return {file, function, line};
  }
};

}  // namespace strata::cuda
