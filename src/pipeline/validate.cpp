// First each rank's list alone: what, how often, where, in which order. Then all ranks together, by
// simulation.
#include "pipeline/validate.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/fields.h"

namespace strata::pipeline {
namespace {

using enum ActionKind;

// Backward does two of the three parts that each (stage, micro-batch) has.
constexpr std::array kParts = {Forward, BackwardInput, BackwardWeight};

bool does(const Action& a, ActionKind part) {
  return a.kind == part || (a.kind == Backward && part != Forward);
}

std::string text(const Action& a) {
  return concat(name_of(a.kind), " of micro-batch ", a.micro_batch, " in stage ", a.stage);
}

// Follows one rank's list.
class RankCheck {
 public:
  RankCheck(const Schedule& schedule, int rank)
      : schedule_(schedule), rank_(rank), done_(std::size_t(schedule.stages)) {}

  void run(ScheduleReport& report) {
    int peak_in_flight = 0, peak_late = 0;
    for (const Action& a : schedule_.actions[std::size_t(rank_)]) {
      check_place(a);
      check_order(a);
      for (std::size_t part = 0; part < kParts.size(); ++part)
        if (does(a, kParts[part])) ++done_[std::size_t(a.stage)][part], ++total_[part];
      peak_in_flight = std::max(peak_in_flight, total_[0] - total_[1]);
      peak_late = std::max(peak_late, total_[1] - total_[2]);
    }
    check_complete();
    report.peak_in_flight.push_back(peak_in_flight);
    report.peak_late_weights.push_back(peak_late);
  }

 private:
  [[noreturn]] void fault(const Action& a, const std::string& rule) const {
    throw Error(concat("schedule: rank ", rank_, ": ", text(a), " ", rule));
  }

  void check_place(const Action& a) const {
    if (a.stage < 0 || a.stage >= schedule_.stages || a.micro_batch < 0 ||
        a.micro_batch >= schedule_.micro_batches)
      fault(a, concat("does not exist: there are ", schedule_.stages, " stages and ", schedule_.micro_batches,
                      " micro-batches"));
    if (schedule_.rank_of(a.stage) != rank_) fault(a, concat("belongs to rank ", schedule_.rank_of(a.stage)));
  }

  // Micro-batches ascend, so how many are done says which.
  void check_order(const Action& a) const {
    const auto& [forwards, inputs, weights] = done_[std::size_t(a.stage)];
    const int m = a.micro_batch;
    for (std::size_t part = 0; part < kParts.size(); ++part) {
      const int next = done_[std::size_t(a.stage)][part];
      if (!does(a, kParts[part]) || m == next) continue;
      if (m < next) fault(a, "is done twice");
      fault(a, concat("comes before that of micro-batch ", next, "; they must ascend, each once"));
    }
    if (a.kind != Forward && m >= forwards) fault(a, "comes before its forward");
    if (a.kind == BackwardWeight && m >= inputs) fault(a, "comes before its backward_input");
  }

  void check_complete() const {
    for (int stage = rank_; stage < schedule_.stages; stage += schedule_.ranks)
      for (std::size_t part = 0; part < kParts.size(); ++part)
        if (const int next = done_[std::size_t(stage)][part]; next < schedule_.micro_batches)
          fault({kParts[part], stage, next}, "is missing");
  }

  const Schedule& schedule_;
  const int rank_;
  std::vector<std::array<int, 3>> done_;  // by stage and part
  std::array<int, 3> total_{};
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const ActionCosts& costs, ScheduleReport& report)
      : schedule_(schedule), costs_(costs), times_(report.times), at_(schedule.actions.size()) {
    times_.resize(schedule.actions.size());
    const auto pairs = std::size_t(schedule.stages) * std::size_t(schedule.micro_batches);
    forward_.resize(pairs);
    backward_.resize(pairs);
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < at_.size(); ++rank)
        for (; !is_done(rank) && try_next(rank); ++at_[rank]) moved = true;
    }
    for (std::size_t rank = 0; rank < at_.size(); ++rank)
      if (!is_done(rank)) throw Error(deadlock());
  }

 private:
  bool is_done(std::size_t rank) const { return at_[rank] == schedule_.actions[rank].size(); }
  const Action& next(std::size_t rank) const { return schedule_.actions[rank][at_[rank]]; }

  // When the output, or the gradient of the input, is there.
  std::optional<double>& arrival(ActionKind kind, int stage, int micro_batch) {
    auto& all = kind == Forward ? forward_ : backward_;
    return all[std::size_t(stage) * std::size_t(schedule_.micro_batches) + std::size_t(micro_batch)];
  }

  // The stage that must come first, if any.
  std::optional<int> needs(const Action& a) const {
    const int other = a.kind == Forward ? a.stage - 1 : a.stage + 1;
    if (a.kind == BackwardWeight || other < 0 || other == schedule_.stages) return std::nullopt;
    return other;
  }

  double cost(ActionKind kind) const {
    if (kind == Forward) return costs_.forward;
    return (kind == BackwardWeight ? 0 : costs_.backward_input) +
           (kind == BackwardInput ? 0 : costs_.backward_weight);
  }

  bool try_next(std::size_t rank) {
    const Action& a = next(rank);
    double begin = times_[rank].empty() ? 0 : times_[rank].back().end;
    if (const std::optional<int> other = needs(a)) {
      const std::optional<double> arrived = arrival(a.kind, *other, a.micro_batch);
      if (!arrived) return false;
      begin = std::max(begin, *arrived);
    }
    const double end = begin + cost(a.kind);
    times_[rank].push_back({a, begin, end});
    if (a.kind != BackwardWeight) arrival(a.kind, a.stage, a.micro_batch) = end;
    return true;
  }

  std::string deadlock() const {
    std::string all;
    for (std::size_t rank = 0; rank < at_.size(); ++rank)
      if (!is_done(rank))
        all += concat(all.empty() ? "" : "; ", "rank ", rank, ": ", text(next(rank)),
                      " waits for that in stage ", *needs(next(rank)));
    return concat("schedule: deadlock: ", all);
  }

  const Schedule& schedule_;
  const ActionCosts& costs_;
  std::vector<std::vector<Timed>>& times_;
  std::vector<std::size_t> at_;                            // by rank: the next action
  std::vector<std::optional<double>> forward_, backward_;  // by stage and micro-batch
};

}  // namespace

ScheduleReport validate(const Schedule& s, const ActionCosts& costs) {
  if (s.ranks < 1 || s.stages < 1 || s.micro_batches < 1 || s.stages % s.ranks != 0 ||
      s.actions.size() != std::size_t(s.ranks))
    throw Error(concat("schedule: ", s.stages, " stages, ", s.micro_batches, " micro-batches and ",
                       s.actions.size(), " lists of actions do not go with ", s.ranks, " ranks"));
  ScheduleReport report;
  for (int rank = 0; rank < s.ranks; ++rank) RankCheck(s, rank).run(report);
  Simulation(s, costs, report).run();
  double busy = 0;
  for (const std::vector<Timed>& rank : report.times) {
    for (const Timed& t : rank) busy += t.end - t.begin;
    report.length = std::max(report.length, rank.back().end);
  }
  if (report.length > 0) report.bubble = 1 - busy / (s.ranks * report.length);
  return report;
}

}  // namespace strata::pipeline
