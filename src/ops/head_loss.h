// The output projection and its cross entropy in one op: tokens x vocabulary is never stored at once.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

struct HeadLoss {
  Var loss;           // [1] Acc: scale * sum of token losses
  Tensor token_loss;  // [T] Acc; 0 where the label is negative
};

// x [T,D], weight [V,D], labels [T] int32. Backward computes the logits again, a chunk of tokens at a time.
HeadLoss head_loss(Tape& tape, const Var& x, Parameter& weight, const Tensor& labels, double scale);

}  // namespace strata::ops
