// y[r, o] = sum over i of x[r, i] W[o, i].
#include "reference/linear.h"

namespace strata::reference {

Array linear(const Array& x, const Array& weight) {
  const int64_t in = weight.dim(1), out = weight.dim(0), rows = x.size() / in;
  require(x.dim(-1) == in, "linear: x and weight disagree");
  Array y({rows, out});
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = &x.data[size_t(r * in)];
    for (int64_t o = 0; o < out; ++o) {
      const double* w = &weight.data[size_t(o * in)];
      double sum = 0.0;
      for (int64_t i = 0; i < in; ++i) sum += row[i] * w[i];
      y(r, o) = sum;
    }
  }
  std::vector<int64_t> shape = x.shape;
  shape.back() = out;
  return y.reshaped(shape);
}

Array grouped_linear(const Array& x, const Array& weight, const Ids& offsets) {
  const int64_t experts = weight.dim(0), out = weight.dim(1), in = weight.dim(2);
  require(static_cast<int64_t>(offsets.size()) == experts + 1,
          "grouped_linear: one offset per expert and an end");
  Array y({x.dim(0), out});
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < in; ++i) y(r, o) += x(r, i) * weight(e, o, i);
      }
    }
  }
  return y;
}

}  // namespace strata::reference
