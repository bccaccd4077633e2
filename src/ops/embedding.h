// Rows of the token table.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

// ids [T] int32, weight [V,D] -> [T,D]. The table's gradient is weight work.
Var embedding(Tape& tape, const Tensor& ids, Parameter& weight);

}  // namespace strata::ops
