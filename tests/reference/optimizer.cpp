// AdamW with decoupled decay (Loshchilov and Hutter), SGD with heavy-ball momentum, global-norm clipping.
#include "reference/optimizer.h"

#include <algorithm>
#include <cmath>

namespace strata::reference {

void adamw_step(const AdamWSpec& spec, int64_t step, const Array& grad, Array& weight, Array& m, Array& v) {
  require(grad.shape == weight.shape && m.shape == weight.shape && v.shape == weight.shape,
          "adamw: shapes differ");
  const double correction1 = 1.0 - std::pow(spec.beta1, static_cast<double>(step));
  const double correction2 = 1.0 - std::pow(spec.beta2, static_cast<double>(step));
  for (size_t i = 0; i < weight.data.size(); ++i) {
    const double g = grad.data[i];
    m.data[i] = spec.beta1 * m.data[i] + (1.0 - spec.beta1) * g;
    v.data[i] = spec.beta2 * v.data[i] + (1.0 - spec.beta2) * g * g;
    weight.data[i] -= spec.lr * spec.weight_decay * weight.data[i];
    weight.data[i] -= spec.lr * (m.data[i] / correction1) / (std::sqrt(v.data[i] / correction2) + spec.eps);
  }
}

void sgd_step(const SgdSpec& spec, const Array& grad, Array& weight, Array& buffer) {
  require(grad.shape == weight.shape && buffer.shape == weight.shape, "sgd: shapes differ");
  for (size_t i = 0; i < weight.data.size(); ++i) {
    weight.data[i] -= spec.lr * spec.weight_decay * weight.data[i];
    buffer.data[i] = spec.momentum * buffer.data[i] + grad.data[i];
    weight.data[i] -= spec.lr * buffer.data[i];
  }
}

double global_norm(const std::vector<Array>& grads) {
  double squares = 0.0;
  for (const Array& grad : grads) {
    for (double g : grad.data) squares += g * g;
  }
  return std::sqrt(squares);
}

double clip_factor(double norm, double clip) {
  if (clip == 0.0) return 1.0;
  return std::min(1.0, clip / (norm + 1e-6));
}

}  // namespace strata::reference
