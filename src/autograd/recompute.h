// Recompute as a wrapper: keep only the inputs, run the body again on an inner tape when gradients are asked
// for. The inner tape writes straight into the outer one's slots, so the additions and hence the bits are the
// same.
#pragma once
#include <functional>
#include <vector>

#include "autograd/tape.h"

namespace strata {

// Called in forward without recording and again in backward: must give the same values both times. An output
// may be an input (same slot); it is then passed through.
using Body = std::function<std::vector<Var>(Tape&, const std::vector<Var>& inputs)>;

std::vector<Var> recompute(Tape& tape, const std::vector<Var>& inputs, Body body);

}  // namespace strata
