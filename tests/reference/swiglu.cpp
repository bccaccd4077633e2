// y = silu(gate) ∘ up with silu(x) = x sigmoid(x).
#include "reference/swiglu.h"

#include <cmath>

#include "reference/linear.h"

namespace strata::reference {

double sigmoid(double x) {
  if (x >= 0.0) return 1.0 / (1.0 + std::exp(-x));
  return std::exp(x) / (1.0 + std::exp(x));
}

Array swiglu(const Array& gate_up) {
  const int64_t tokens = gate_up.dim(0), width = gate_up.dim(1) / 2;
  Array y({tokens, width});
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t f = 0; f < width; ++f) {
      const double gate = gate_up(t, f), up = gate_up(t, width + f);
      y(t, f) = gate * sigmoid(gate) * up;
    }
  }
  return y;
}

Array swiglu(const Array& gate, const Array& up) {
  require(gate.shape == up.shape, "swiglu: gate and up differ");
  Array y(gate.shape);
  for (size_t i = 0; i < y.data.size(); ++i) y.data[i] = gate.data[i] * sigmoid(gate.data[i]) * up.data[i];
  return y;
}

Array swiglu_mlp(const Array& x, const Array& gate_weight, const Array& up_weight, const Array& down_weight) {
  return linear(swiglu(linear(x, gate_weight), linear(x, up_weight)), down_weight);
}

}  // namespace strata::reference
