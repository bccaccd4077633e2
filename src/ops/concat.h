// Matrices side by side.
#pragma once
#include "autograd/tape.h"

namespace strata::ops {

// a [T,A], b [T,B] of one type -> [T,A+B].
Var concat_columns(Tape& tape, const Var& a, const Var& b);

}  // namespace strata::ops
