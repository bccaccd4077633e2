// silu(gate) ∘ up, and the sigmoid it stands on.
#pragma once

#include "reference/array.h"

namespace strata::reference {

/// 1 / (1 + e^−x), without overflow at either end.
double sigmoid(double x);

/// gate_up [T, 2F], columns gate | up -> [T, F].
Array swiglu(const Array& gate_up);

/// gate [..., F], up [..., F] -> [..., F].
Array swiglu(const Array& gate, const Array& up);

/// x [T, D], gate and up weights [F, D], down weight [D, F] -> [T, D].
Array swiglu_mlp(const Array& x, const Array& gate_weight, const Array& up_weight, const Array& down_weight);

}  // namespace strata::reference
