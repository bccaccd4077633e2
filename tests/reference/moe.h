// The routed part of a mixture-of-experts layer: y_t = sum over chosen e of gate · expert_e(x_t).
#pragma once

#include "reference/array.h"
#include "reference/router.h"

namespace strata::reference {

/// SwiGLU experts, one entry each: gate and up [F, D], down [D, F].
struct Experts {
  std::vector<Array> gate, up, down;
};

/// x [T, D], `experts` [T · K] and `gates` [T, K] as a router gives them -> [T, D]. No shared expert.
Array moe(const Array& x, const Experts& weights, const Ids& experts, const Array& gates);

}  // namespace strata::reference
