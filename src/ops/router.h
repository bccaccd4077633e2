// Choosing the experts of a token: DeepSeek-V3, arXiv 2412.19437, section 2.1.2.
#pragma once
#include "autograd/tape.h"
#include "kernels/jobs.h"

namespace strata::ops {

struct Routed {
  Var gates;       // [T,K] Acc
  Var aux;         // [1] Acc: balance loss and z-loss, with their coefficients
  Tensor indices;  // [T,K] int32
};

// logits [T,E] in Acc, bias [E] or undefined, T = batch sequences. Chosen tokens are added to load [E] int64,
// except on a replaying tape.
Routed route(Tape& tape, const Var& logits, const Tensor& bias, const kernels::RouterRule& rule,
             std::int64_t batch, const Tensor& load);

// Where each of the T*K choices stands among the rows sorted by expert.
struct RoutingPlan {
  Tensor offsets;             // [E+1] int32
  Tensor row_slot, slot_row;  // [T*K] int32
};
RoutingPlan plan_routing(Tape& tape, const Tensor& indices, std::int64_t experts);

}  // namespace strata::ops
