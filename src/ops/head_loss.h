// The output projection and its cross entropy in one op: tokens x vocabulary is never stored at once.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

struct HeadLoss {
  Var loss;           // [1] Acc: scale * sum of token losses
  Tensor token_loss;  // [T] Acc; 0 where the label is negative
};

// x [T,D], weight [V,D], labels [T] int32. On a tape that records, nothing is computed before backward, which
// makes loss and gradients from the same logits, a chunk of tokens at a time: `loss.value` and `token_loss`
// are valid only after it, and only if a gradient of the loss arrived. The weight's gradient is never
// postponed. A tape that does not record computes the loss at once.
HeadLoss head_loss(Tape& tape, const Var& x, Parameter& weight, const Tensor& labels, double scale);

}  // namespace strata::ops
