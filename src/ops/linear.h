// y = x w^T.
#pragma once
#include <optional>

#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

// x [T,I], w [O,I] -> [T,O], in `out_dtype` or x's type. The weight gradient is weight work.
Var linear(Tape& tape, const Var& x, Parameter& w, std::optional<DType> out_dtype = std::nullopt);

}  // namespace strata::ops
