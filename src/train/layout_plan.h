// What each rank of a run on several will hold and send: a step and an evaluation by one rank of every
// pipeline stage, on devices that do nothing. Data-parallel ranks are like the first of their stage, which
// never has less to do; of the copies for a checkpoint others may have more.
#pragma once
#include <vector>

#include "comm/mesh.h"
#include "train/dry_run.h"
#include "train/traffic.h"

namespace strata::train {

struct RankPlan {
  std::vector<model::StageRange> stages;
  std::int64_t parameters = 0;  // trained elements on this rank
  Memory memory;                // of a training step and an evaluation
  int in_flight = 0;            // (stage, micro-batch) pairs between forward and backward, at most
  int late_weights = 0;         // pairs whose weights' part waits, at most
  Traffic sent;                 // in a step
  // Memory and what is sent are with tokens spread evenly over experts. In a step in which all tokens of
  // those who share experts choose the ones on this rank:
  std::int64_t worst_peak = 0;  // bytes in use at most
  comm::Traffic worst_experts;  // rows from experts elsewhere and back; as much comes as goes
};

// Bytes of one micro-batch across the cut before a stage.
struct CutPlan {
  int stage = 0, from = 0, to = 0;  // pipeline ranks
  std::int64_t forward = 0, backward = 0;
};

struct LayoutPlan {
  comm::MeshShape shape;
  pipeline::ScheduleKind schedule = {};
  int micro_batches = 0;        // of the first data-parallel rank, in a step
  double bubble = 0;            // where backward takes twice as long as forward
  std::vector<RankPlan> ranks;  // by pipeline rank
  std::vector<CutPlan> cuts;
  // What a rank sends for a MoE layer and micro-batch, forward and backward, with experts spread evenly.
  std::int64_t experts_bytes = 0;
};

// The one that needs most memory.
const RankPlan& fullest(const LayoutPlan& plan);

// Micro-batches of a step on the first data-parallel rank; no rank has more.
std::int64_t micro_batches(const RunConfig& config, int ranks);

// Throws InputError where the configuration does not go with so many ranks.
LayoutPlan plan_layout(const RunConfig& config, int ranks);

}  // namespace strata::train
