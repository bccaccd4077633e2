// The validator against schedules worked out by hand, and against one planted fault at a time.
#include <gtest/gtest.h>

#include "base/error.h"
#include "pipeline/schedule.h"
#include "pipeline/validate.h"

namespace strata::pipeline {
namespace {

using enum ActionKind;
constexpr auto k1F1B = ScheduleKind::OneForwardOneBackward;

TEST(Validator, TimesAreThoseWorkedOutByHand) {
  const ScheduleReport r = validate(make_schedule(k1F1B, 2, 1, 2), {.forward = 2, .backward_weight = 3});
  // rank 0  F0 F0 F1 F1 .  .  .  .  B0 B0 B0 B0 .  .  B1 B1 B1 B1
  // rank 1  .  .  F0 F0 B0 B0 B0 B0 F1 F1 B1 B1 B1 B1 .  .  .  .
  const double begin[2][4] = {{0, 2, 8, 14}, {2, 4, 8, 10}}, end[2][4] = {{2, 4, 12, 18}, {4, 8, 10, 14}};
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(r.times[rank][i].begin, begin[rank][i]) << rank << " " << i;
      EXPECT_EQ(r.times[rank][i].end, end[rank][i]) << rank << " " << i;
    }
  EXPECT_EQ(r.length, 18);
  EXPECT_DOUBLE_EQ(r.bubble, 12.0 / 36);
  EXPECT_EQ(r.peak_in_flight, (std::vector<int>{2, 1}));
  EXPECT_EQ(r.peak_late_weights, (std::vector<int>{0, 0}));
}

// Both parts of a backward cost what the whole one does.
TEST(Validator, CountsLateWeights) {
  Schedule s = make_schedule(k1F1B, 1, 1, 2);
  const double length = validate(s).length;
  s.actions[0] = {{Forward, 0, 0},       {BackwardInput, 0, 0},  {Forward, 0, 1},
                  {BackwardInput, 0, 1}, {BackwardWeight, 0, 0}, {BackwardWeight, 0, 1}};
  const ScheduleReport r = validate(s);
  EXPECT_EQ(r.length, length);
  EXPECT_EQ(r.bubble, 0);
  EXPECT_EQ(r.peak_in_flight, (std::vector<int>{1}));
  EXPECT_EQ(r.peak_late_weights, (std::vector<int>{2}));
}

struct Fault {
  const char* name;
  ScheduleKind kind;
  void (*plant)(Schedule&);
  const char* message;
};

// Into 2 ranks and 3 micro-batches:
// 1f1b         rank 0: F0 F1 B0 F2 B1 B2           rank 1: F0 B0 F1 B1 F2 B2
// zero_bubble  rank 0: F0 F1 b0 w0 F2 b1 w1 b2 w2  rank 1: F0 b0 F1 b1 w0 F2 b2 w1 w2
const Fault kFaults[] = {
    {"forward missing", k1F1B, [](Schedule& s) { s.actions[1].erase(s.actions[1].begin() + 4); },
     "schedule: rank 1: backward of micro-batch 2 in stage 1 comes before its forward"},
    {"last backward missing", k1F1B, [](Schedule& s) { s.actions[0].pop_back(); },
     "schedule: rank 0: backward_input of micro-batch 2 in stage 0 is missing"},
    {"last weights missing", ScheduleKind::ZeroBubble, [](Schedule& s) { s.actions[1].pop_back(); },
     "schedule: rank 1: backward_weight of micro-batch 2 in stage 1 is missing"},
    {"middle weights missing", ScheduleKind::ZeroBubble,
     [](Schedule& s) { s.actions[1].erase(s.actions[1].end() - 2); },
     "schedule: rank 1: backward_weight of micro-batch 2 in stage 1 comes before that of micro-batch 1; they "
     "must ascend, each once"},
    {"a rank does nothing", k1F1B, [](Schedule& s) { s.actions[1].clear(); },
     "schedule: rank 1: forward of micro-batch 0 in stage 1 is missing"},
    {"forward doubled", k1F1B,
     [](Schedule& s) {
       s.actions[0].insert(s.actions[0].begin(), {Forward, 0, 0});
     },
     "schedule: rank 0: forward of micro-batch 0 in stage 0 is done twice"},
    {"backward doubled", k1F1B,
     [](Schedule& s) {
       s.actions[1].push_back({Backward, 1, 1});
     },
     "schedule: rank 1: backward of micro-batch 1 in stage 1 is done twice"},
    {"weights after whole backward", k1F1B,
     [](Schedule& s) {
       s.actions[1].push_back({BackwardWeight, 1, 2});
     },
     "schedule: rank 1: backward_weight of micro-batch 2 in stage 1 is done twice"},
    {"wrong rank", k1F1B, [](Schedule& s) { std::swap(s.actions[0], s.actions[1]); },
     "schedule: rank 0: forward of micro-batch 0 in stage 1 belongs to rank 1"},
    {"no such stage", k1F1B, [](Schedule& s) { s.actions[0][0].stage = 2; },
     "schedule: rank 0: forward of micro-batch 0 in stage 2 does not exist: there are 2 stages and 3 "
     "micro-batches"},
    {"no such micro-batch", k1F1B, [](Schedule& s) { s.actions[0][0].micro_batch = -1; },
     "schedule: rank 0: forward of micro-batch -1 in stage 0 does not exist: there are 2 stages and 3 "
     "micro-batches"},
    {"backward before forward", k1F1B, [](Schedule& s) { std::swap(s.actions[1][0], s.actions[1][1]); },
     "schedule: rank 1: backward of micro-batch 0 in stage 1 comes before its forward"},
    {"weights before inputs", ScheduleKind::ZeroBubble,
     [](Schedule& s) { std::swap(s.actions[0][2], s.actions[0][3]); },
     "schedule: rank 0: backward_weight of micro-batch 0 in stage 0 comes before its backward_input"},
    {"forwards descend", k1F1B, [](Schedule& s) { std::swap(s.actions[0][0], s.actions[0][1]); },
     "schedule: rank 0: forward of micro-batch 1 in stage 0 comes before that of micro-batch 0; they must "
     "ascend, each once"},
    {"backwards descend", k1F1B, [](Schedule& s) { std::swap(s.actions[0][4], s.actions[0][5]); },
     "schedule: rank 0: backward of micro-batch 2 in stage 0 comes before that of micro-batch 1; they must "
     "ascend, each once"},
    {"weights descend", ScheduleKind::ZeroBubble,
     [](Schedule& s) { std::swap(s.actions[1][7], s.actions[1][8]); },
     "schedule: rank 1: backward_weight of micro-batch 2 in stage 1 comes before that of micro-batch 1; they "
     "must ascend, each once"},
    {"deadlock", k1F1B,
     [](Schedule& s) {
       std::swap(s.actions[0][1], s.actions[0][2]);
       std::swap(s.actions[1][1], s.actions[1][2]);
     },
     "schedule: deadlock: rank 0: backward of micro-batch 0 in stage 0 waits for that in stage 1; rank 1: "
     "forward of micro-batch 1 in stage 1 waits for that in stage 0"},
    {"lists missing", k1F1B, [](Schedule& s) { s.actions.pop_back(); },
     "schedule: 2 stages, 3 micro-batches and 1 lists of actions do not go with 2 ranks"},
    {"stages that ranks do not divide", k1F1B, [](Schedule& s) { s.stages = 3; },
     "schedule: 3 stages, 3 micro-batches and 2 lists of actions do not go with 2 ranks"},
};

TEST(Validator, NamesEveryPlantedFault) {
  for (const Fault& fault : kFaults) {
    Schedule s = make_schedule(fault.kind, 2, 1, 3);
    fault.plant(s);
    std::string message = "accepted";
    try {
      validate(s);
    } catch (const Error& e) {
      message = e.what();
    }
    EXPECT_EQ(message, fault.message) << fault.name;
  }
}

// Stages of one rank wait for each other too: the list alone can be a deadlock.
TEST(Validator, FindsADeadlockOfOneRank) {
  Schedule s = make_schedule(ScheduleKind::GPipe, 1, 2, 1);
  std::swap(s.actions[0][0], s.actions[0][1]);
  EXPECT_THROW(validate(s), Error);
  s = make_schedule(ScheduleKind::GPipe, 1, 2, 1);
  std::swap(s.actions[0][2], s.actions[0][3]);
  EXPECT_THROW(validate(s), Error);
}

}  // namespace
}  // namespace strata::pipeline
