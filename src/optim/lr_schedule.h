// The learning rate of a step: linear warm-up, then constant, cosine, WSD or step decay (Megatron's
// formulas).
#pragma once
#include "optim/config.h"

namespace strata::optim {

// `step` counts from 1 (the first update); `iterations` is the length of the run.
double learning_rate(const LrScheduleSection& schedule, double peak, std::int64_t step,
                     std::int64_t iterations);

}  // namespace strata::optim
