// Each kind is one function: the list of a rank. All but gpipe are warm-up forwards, then one forward and one
// backward in turns, then the backwards that are left.
#include "pipeline/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/fields.h"

namespace strata::pipeline {
namespace {

using Actions = std::vector<Action>;
using enum ActionKind;

struct Shape {
  int ranks, virtual_stages, micro_batches;
};

Actions alternate(const Actions& forwards, const Actions& backwards, int warm_up) {
  const std::size_t ahead = std::min(std::size_t(warm_up), forwards.size());
  Actions all(forwards.begin(), forwards.begin() + std::ptrdiff_t(ahead));
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (ahead + i < forwards.size()) all.push_back(forwards[ahead + i]);
    all.push_back(backwards[i]);
  }
  return all;
}

Actions gpipe(int rank, const Shape& s) {
  Actions all;
  for (int v = 0; v < s.virtual_stages; ++v)
    for (int m = 0; m < s.micro_batches; ++m) all.push_back({Forward, v * s.ranks + rank, m});
  for (int v = s.virtual_stages - 1; v >= 0; --v)
    for (int m = 0; m < s.micro_batches; ++m) all.push_back({Backward, v * s.ranks + rank, m});
  return all;
}

Actions one_forward_one_backward(int rank, const Shape& s) {
  Actions forwards, backwards;
  for (int m = 0; m < s.micro_batches; ++m) {
    forwards.push_back({Forward, rank, m});
    backwards.push_back({Backward, rank, m});
  }
  return alternate(forwards, backwards, s.ranks - 1 - rank);
}

// Groups of `ranks` micro-batches go through all stages of a rank before the next group. Where the last group
// is not full, the list is that of full groups without the micro-batches that are not there: what is left
// waits for nothing new, so it is as free of deadlock as full groups are.
Actions interleaved(int rank, const Shape& s) {
  Actions forwards, backwards;
  for (int group = 0; group < s.micro_batches; group += s.ranks)
    for (int v = 0; v < s.virtual_stages; ++v)
      for (int m = group; m < group + s.ranks; ++m) {
        forwards.push_back({Forward, v * s.ranks + rank, m});
        backwards.push_back({Backward, (s.virtual_stages - 1 - v) * s.ranks + rank, m});
      }
  const int warm_up = 2 * (s.ranks - 1 - rank) + (s.virtual_stages - 1) * s.ranks;
  Actions all = alternate(forwards, backwards, warm_up);
  std::erase_if(all, [&](const Action& a) { return a.micro_batch >= s.micro_batches; });
  return all;
}

// ZB-H1: 1F1B, with the weights' part of backward `rank` micro-batches late. What a rank keeps, in flight and
// late together, never exceeds what the first rank of 1F1B keeps.
Actions zero_bubble(int rank, const Shape& s) {
  Actions all;
  for (const Action& a : one_forward_one_backward(rank, s)) {
    all.push_back({a.kind == Forward ? Forward : BackwardInput, a.stage, a.micro_batch});
    if (a.kind == Backward && a.micro_batch >= rank)
      all.push_back({BackwardWeight, a.stage, a.micro_batch - rank});
  }
  for (int m = std::max(0, s.micro_batches - rank); m < s.micro_batches; ++m)
    all.push_back({BackwardWeight, rank, m});
  return all;
}

Actions actions_of(ScheduleKind kind, int rank, const Shape& s) {
  switch (kind) {
    case ScheduleKind::GPipe:
      return gpipe(rank, s);
    case ScheduleKind::OneForwardOneBackward:
      return one_forward_one_backward(rank, s);
    case ScheduleKind::Interleaved:
      return interleaved(rank, s);
    case ScheduleKind::ZeroBubble:
      return zero_bubble(rank, s);
  }
  throw Error(concat("no schedule has the number ", int(kind)));
}

}  // namespace

StageCount stages_per_rank(ScheduleKind kind) {
  if (kind == ScheduleKind::GPipe) return {};
  if (kind == ScheduleKind::Interleaved) return {.least = 2};
  return {.most = 1};
}

Schedule make_schedule(ScheduleKind kind, int ranks, int virtual_stages, int micro_batches) {
  STRATA_CHECK(ranks >= 1 && micro_batches >= 1, ranks, " ranks, ", micro_batches, " micro-batches");
  const StageCount allowed = stages_per_rank(kind);
  if (!allowed.allows(virtual_stages))
    throw InputError(concat("schedule ", name_of(kind), " with ", virtual_stages,
                            " stages a rank, allowed is ", allowed.most == 1 ? "" : "at least ",
                            allowed.least));
  Schedule schedule{kind, ranks, ranks * virtual_stages, micro_batches, {}};
  for (int rank = 0; rank < ranks; ++rank)
    schedule.actions.push_back(actions_of(kind, rank, {ranks, virtual_stages, micro_batches}));
  return schedule;
}

}  // namespace strata::pipeline
