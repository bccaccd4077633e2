// y_e = x_e w_e^T: one matrix per expert, rows sorted by expert.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

// rows [R,I], w [E,O,I], offsets [E+1] int32: rows offsets[e] .. offsets[e+1] - 1 meet expert e -> [R,O].
// The weight gradient is weight work.
Var grouped_linear(Tape& tape, const Var& rows, Parameter& w, const Tensor& offsets);

}  // namespace strata::ops
