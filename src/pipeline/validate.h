// Proves a schedule before anything runs: every stage does every micro-batch forward and backward exactly
// once, on its own rank, in an order that the data allows, micro-batches of a stage in order, and no rank
// waits for ever.
#pragma once
#include <vector>

#include "pipeline/action.h"

namespace strata::pipeline {

// Time of a whole stage's actions. Backward is both parts.
struct ActionCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
};

struct Timed {
  Action action;
  double begin = 0, end = 0;
};

struct ScheduleReport {
  std::vector<std::vector<Timed>> times;  // by rank
  double length = 0;                      // until the last rank is done
  double bubble = 0;                      // share of ranks * length in which ranks are idle
  std::vector<int> peak_in_flight;        // by rank: (stage, micro-batch) pairs run forward, not yet backward
  std::vector<int> peak_late_weights;     // by rank: pairs whose BackwardInput is done, BackwardWeight not
};

// Each rank does its list in order, an action as soon as what it needs has arrived; sends wait for nobody,
// and take no time. Throws Error naming rank, action and rule at the first fault; a deadlock names what each
// rank waits for.
ScheduleReport validate(const Schedule& schedule, const ActionCosts& costs = {});

}  // namespace strata::pipeline
