// (a, b) -> (a cos − b sin, a sin + b cos) on every pair of the rotated part.
#include "reference/rope.h"

#include <cmath>

namespace strata::reference {

Array rope(const Array& x, int64_t first, int64_t dim, double theta, int64_t sequence_length,
           RopePairs pairs) {
  require(dim % 2 == 0 && first >= 0 && first + dim <= x.dim(2), "rope: bad rotated range");
  Array y = x;
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t h = 0; h < x.dim(1); ++h) {
      for (int64_t i = 0; i < dim / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(dim);
        const double angle = static_cast<double>(t % sequence_length) * std::pow(theta, exponent);
        const bool interleaved = pairs == RopePairs::kInterleaved;
        const int64_t ia = first + (interleaved ? 2 * i : i);
        const int64_t ib = first + (interleaved ? 2 * i + 1 : i + dim / 2);
        const double a = x(t, h, ia), b = x(t, h, ib);
        y(t, h, ia) = a * std::cos(angle) - b * std::sin(angle);
        y(t, h, ib) = a * std::sin(angle) + b * std::cos(angle);
      }
    }
  }
  return y;
}

}  // namespace strata::reference
