// The schedules: GPipe (arXiv 1811.06965), 1F1B and interleaved 1F1B (arXiv 2104.04473), zero bubble ZB-H1
// (arXiv 2401.10241).
#pragma once
#include <limits>

#include "pipeline/action.h"

namespace strata::pipeline {

// How many stages a rank may have.
struct StageCount {
  int least = 1, most = std::numeric_limits<int>::max();
  bool allows(int stages) const { return stages >= least && stages <= most; }
};
StageCount stages_per_rank(ScheduleKind kind);

// virtual_stages: stages per rank. Any number of micro-batches, fewer than ranks too. Micro-batches of a
// stage run in ascending order, forward and backward. Throws InputError where the kind does not go with
// virtual_stages.
Schedule make_schedule(ScheduleKind kind, int ranks, int virtual_stages, int micro_batches);

}  // namespace strata::pipeline
