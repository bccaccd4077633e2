// The extents of a launch and what the hardware allows (compute capability 9.0).
#pragma once
#include <cstdint>

#include "kernels/cuda/site.h"

namespace strata::cuda {

#if !defined(__CUDACC__)
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
#endif

}  // namespace strata::cuda

namespace strata::emulate {

using cuda::dim3;
using cuda::Site;

constexpr int kWarpSize = 32;
constexpr int kMaxThreads = 1024;
constexpr std::int64_t kMaxSharedBytes = 227 << 10;

struct GridShape {
  dim3 grid, block;
  std::int64_t shared_bytes = 0;
  Site site;  // of the launch

  std::int64_t blocks() const { return std::int64_t(grid.x) * grid.y * grid.z; }
  std::int64_t threads() const { return std::int64_t(block.x) * block.y * block.z; }
};

// Throws Error, naming the launch, if a device would refuse it.
void check_limits(const GridShape& shape);

// The indices of element `number` of a box, x fastest.
constexpr dim3 index_in(const dim3& box, std::int64_t number) {
  return dim3(unsigned(number % box.x), unsigned(number / box.x % box.y), unsigned(number / box.x / box.y));
}

}  // namespace strata::emulate
