// RMSNorm, Zhang & Sennrich, arXiv 1910.07467.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

// y = weight * x / sqrt(mean(x^2) + eps); x [T,D], weight [D] or null for no gain. y can be released.
Var rms_norm(Tape& tape, const Var& x, Parameter* weight, double eps);

}  // namespace strata::ops
