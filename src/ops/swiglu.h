// SwiGLU, Shazeer, arXiv 2002.05202.
#pragma once
#include "autograd/tape.h"

namespace strata::ops {

// y = silu(gate) * up; x [T,2F] holds gate | up, y [T,F]. y can be released (Recompute::Activation).
Var swiglu(Tape& tape, const Var& x);

}  // namespace strata::ops
