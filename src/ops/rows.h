// Tokens to rows sorted by expert, and back as a gated sum.
#pragma once
#include "ops/router.h"

namespace strata::ops {

// x [T,D] -> rows [T*K,D].
Var gather_rows(Tape& tape, const Var& x, const RoutingPlan& plan);
// rows [T*K,D], gates [T,K] in Acc -> y [T,D], y_t = sum_k gates_tk * row of choice k.
Var combine_rows(Tape& tape, const Var& rows, const Var& gates, const RoutingPlan& plan);
// Rows [R,D] sorted by expert -> as they stood before they were gathered, where each had one choice (R = T).
Var restore_rows(Tape& tape, const Var& rows, const RoutingPlan& plan);

}  // namespace strata::ops
