// y = w ∘ x / sqrt(mean(x²) + eps), over the last axis.
#pragma once

#include "reference/array.h"

namespace strata::reference {

/// x [..., D], weight [D] or empty (no weight) -> [..., D].
Array rms_norm(const Array& x, const Array& weight, double eps);

/// 1 / sqrt(mean(x²) + eps) of every row: x [..., D] -> [rows].
Array rms_norm_rstd(const Array& x, double eps);

}  // namespace strata::reference
