// A pipeline schedule is data: what each rank does, in order. Pure functions make it, a validator proves it,
// an executor runs it.
#pragma once
#include <array>
#include <string_view>
#include <vector>

namespace strata::pipeline {

enum class ScheduleKind { GPipe, OneForwardOneBackward, Interleaved, ZeroBubble };
constexpr auto enum_names(ScheduleKind) {
  return std::array<std::string_view, 4>{"gpipe", "1f1b", "interleaved", "zero_bubble"};
}

// Backward: gradients of inputs and of weights in one go. BackwardInput is what the stage before waits for,
// BackwardWeight the rest, any time later.
enum class ActionKind { Forward, Backward, BackwardInput, BackwardWeight };
constexpr auto enum_names(ActionKind) {
  return std::array<std::string_view, 4>{"forward", "backward", "backward_input", "backward_weight"};
}

struct Action {
  ActionKind kind = ActionKind::Forward;
  int stage = 0, micro_batch = 0;
  bool operator==(const Action&) const = default;
};

// Stages are numbered along the model, 0 .. ranks * virtual - 1, and dealt out to the pipeline ranks in turn.
inline int rank_of_stage(int stage, int ranks) { return stage % ranks; }

struct Schedule {
  ScheduleKind kind = ScheduleKind::OneForwardOneBackward;
  int ranks = 1, stages = 1, micro_batches = 1;
  std::vector<std::vector<Action>> actions;  // by rank

  int rank_of(int stage) const { return rank_of_stage(stage, ranks); }
};

}  // namespace strata::pipeline
