// y = x Wᵀ, plain and per expert.
#pragma once

#include "reference/array.h"

namespace strata::reference {

/// x [..., in], weight [out, in] -> [..., out].
Array linear(const Array& x, const Array& weight);

/// x [R, in], weight [E, out, in], offsets [E + 1] -> [R, out]: rows offsets[e] .. offsets[e+1]-1 meet expert
/// e. Rows outside every range stay zero.
Array grouped_linear(const Array& x, const Array& weight, const Ids& offsets);

}  // namespace strata::reference
