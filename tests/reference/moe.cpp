// Naive loop over tokens and their experts.
#include "reference/moe.h"

#include "reference/swiglu.h"

namespace strata::reference {

Array moe(const Array& x, const Experts& weights, const Ids& experts, const Array& gates) {
  const int64_t tokens = x.dim(0), width = x.dim(1), k = gates.dim(1);
  Array y({tokens, width});
  for (int64_t t = 0; t < tokens; ++t) {
    const auto begin = x.data.begin() + t * width;
    const Array token({1, width}, std::vector<double>(begin, begin + width));
    for (int64_t i = 0; i < k; ++i) {
      const size_t e = static_cast<size_t>(experts.at(static_cast<size_t>(t * k + i)));
      const Array out = swiglu_mlp(token, weights.gate.at(e), weights.up.at(e), weights.down.at(e));
      for (int64_t c = 0; c < width; ++c) y(t, c) += gates(t, i) * out(0, c);
    }
  }
  return y;
}

}  // namespace strata::reference
