// What a rank sends in a step, by what it is for.
#pragma once
#include "train/trainer.h"

namespace strata::train {

// Bytes that left this rank.
struct Traffic {
  std::int64_t pipeline = 0;    // cuts between stages
  std::int64_t experts = 0;     // rows to experts and back, with their counts
  std::int64_t reductions = 0;  // sums of gradients, losses and loads; updated weights, where each rank
                                // updates a part of them
};
Traffic operator-(const Traffic& a, const Traffic& b);

// So far.
Traffic sent(const Trainer& trainer);

}  // namespace strata::train
