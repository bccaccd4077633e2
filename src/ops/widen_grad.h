// A value with many readers, whose gradients should be summed in more bits than the value has.
#pragma once
#include "autograd/tape.h"

namespace strata::ops {

// The same memory under a Var whose gradient is accumulated in Acc; x itself where its gradient is already.
Var widen_grad(Tape& tape, const Var& x);

}  // namespace strata::ops
