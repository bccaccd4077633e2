// y = a + b.
#pragma once
#include <optional>

#include "autograd/tape.h"

namespace strata::ops {

// a and b have one shape and type. `grad_dtype`: the type in which y's gradient is accumulated, if not y's
// own.
Var add(Tape& tape, const Var& a, const Var& b, std::optional<DType> grad_dtype = std::nullopt);

}  // namespace strata::ops
