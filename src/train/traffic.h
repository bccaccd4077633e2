// What a rank sends in a step, by what it is for.
#pragma once
#include "train/trainer.h"

namespace strata::train {

// Bytes and messages that left this rank.
struct Traffic {
  comm::Traffic pipeline;    // cuts between stages
  comm::Traffic experts;     // rows to experts and back, with their counts
  comm::Traffic reductions;  // sums of gradients, losses and loads; updated weights, where each rank updates
                             // a part of them
};
Traffic operator-(const Traffic& a, const Traffic& b);

// So far.
Traffic sent(const Trainer& trainer);

}  // namespace strata::train
