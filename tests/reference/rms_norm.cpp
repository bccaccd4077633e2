// Root-mean-square normalisation, row by row.
#include "reference/rms_norm.h"

#include <cmath>

namespace strata::reference {

Array rms_norm_rstd(const Array& x, double eps) {
  const int64_t width = x.dim(-1), rows = x.size() / width;
  const Array flat = x.reshaped({rows, width});
  Array rstd({rows});
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0.0;
    for (int64_t i = 0; i < width; ++i) squares += flat(r, i) * flat(r, i);
    rstd(r) = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
  }
  return rstd;
}

Array rms_norm(const Array& x, const Array& weight, double eps) {
  const int64_t width = x.dim(-1), rows = x.size() / width;
  const Array rstd = rms_norm_rstd(x, eps);
  Array y = x.reshaped({rows, width});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) y(r, i) *= rstd(r) * (weight.empty() ? 1.0 : weight(i));
  }
  return y.reshaped(x.shape);
}

}  // namespace strata::reference
