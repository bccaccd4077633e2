// One optimiser step on one array, and clipping by the global norm.
#pragma once

#include "reference/array.h"

namespace strata::reference {

struct AdamWSpec {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.0;  ///< 0 for the parameters that do not decay
};

struct SgdSpec {
  double lr = 1e-3, momentum = 0.0, weight_decay = 0.0;
};

/// w −= lr·wd·w, then w −= lr · m̂ / (sqrt(v̂) + eps); `step` counts from 1. Changes weight, m and v.
void adamw_step(const AdamWSpec& spec, int64_t step, const Array& grad, Array& weight, Array& m, Array& v);

/// w −= lr·wd·w, then buffer ← momentum · buffer + grad, w −= lr · buffer. Changes weight and buffer.
void sgd_step(const SgdSpec& spec, const Array& grad, Array& weight, Array& buffer);

/// Square root of the sum of all squares.
double global_norm(const std::vector<Array>& grads);

/// min(1, clip / (norm + 1e-6)); 1 when clip is 0.
double clip_factor(double norm, double clip);

}  // namespace strata::reference
