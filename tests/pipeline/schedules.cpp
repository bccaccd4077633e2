// Every schedule of every shape is valid; bubbles and peaks are those of the papers.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/fields.h"
#include "pipeline/schedule.h"
#include "pipeline/validate.h"

namespace strata::pipeline {
namespace {

constexpr ScheduleKind kKinds[] = {ScheduleKind::GPipe, ScheduleKind::OneForwardOneBackward,
                                   ScheduleKind::Interleaved, ScheduleKind::ZeroBubble};

struct Case {
  ScheduleKind kind;
  int ranks, virtual_stages, micro_batches;

  std::string name() const {
    return concat(name_of(kind), ", ", ranks, " ranks x ", virtual_stages, ", ", micro_batches,
                  " micro-batches");
  }
};

template <class F>
void for_each_case(F f) {
  for (const ScheduleKind kind : kKinds)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int v = 1; v <= 4; ++v)
        for (int m = 1; m <= 17; ++m)
          if (stages_per_rank(kind).allows(v)) f(Case{kind, ranks, v, m});
}

ScheduleReport report(const Case& c) {
  return validate(make_schedule(c.kind, c.ranks, c.virtual_stages, c.micro_batches));
}

// Idle units of each rank, of `units` of work.
double bubble(double idle, double units) { return idle / (idle + units); }

TEST(Schedules, OfEveryShapeAreValid) {
  int cases = 0;
  for_each_case([&](const Case& c) {
    ++cases;
    EXPECT_NO_THROW(report(c)) << c.name();
  });
  EXPECT_EQ(cases, 8 * 17 * (4 + 1 + 3 + 1));
}

// (P - 1) / (v M + P - 1) of the time (arXiv 2104.04473, section 2), whatever the costs.
TEST(Schedules, HaveTheBubblesOfThePaper) {
  for_each_case([](const Case& c) {
    const bool full = c.virtual_stages == 1 || c.micro_batches % c.ranks == 0;
    if (c.kind == ScheduleKind::ZeroBubble || !full) return;
    EXPECT_NEAR(report(c).bubble, bubble(c.ranks - 1, c.virtual_stages * c.micro_batches), 1e-12) << c.name();
  });
}

// A last group that is not full takes no longer than a full one.
TEST(Schedules, InterleavedIsNoSlowerThanWithAFullLastGroup) {
  for_each_case([](Case c) {
    if (c.kind != ScheduleKind::Interleaved) return;
    const ScheduleReport part = report(c);
    c.micro_batches += (c.ranks - c.micro_batches % c.ranks) % c.ranks;
    EXPECT_LE(part.length, report(c).length) << c.name();
  });
}

// Forward, inputs and weights F, B, W: (P - 1) (F + B - W) (arXiv 2401.10241, table 1), against (P - 1) (F +
// B + W).
TEST(Schedules, ZeroBubbleFillsTheBubbleWithWeights) {
  for_each_case([](Case c) {
    if (c.kind != ScheduleKind::ZeroBubble) return;
    const ScheduleReport zero_bubble = report(c);
    c.kind = ScheduleKind::OneForwardOneBackward;
    const ScheduleReport plain = report(c);
    EXPECT_LE(zero_bubble.length, plain.length) << c.name();
    if (c.micro_batches < c.ranks) return;
    EXPECT_NEAR(zero_bubble.bubble, bubble(c.ranks - 1, 3 * c.micro_batches), 1e-12) << c.name();
    if (c.ranks == 1) return;
    EXPECT_LT(zero_bubble.bubble, plain.bubble) << c.name();
  });
}

// The paper's formula is for weights that take no longer than inputs; what they take longer fills nothing.
TEST(Schedules, ZeroBubbleIsThePapersWithOtherCosts) {
  const ActionCosts all[] = {{1, 1.5, 1}, {1, 1, 0.5}, {2, 1.25, 0.25}, {1, 1, 1.5}};
  for (const ActionCosts& c : all)
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (int m = ranks; m <= 17; ++m) {
        const double idle = (ranks - 1) * (c.forward + std::max(0.0, c.backward_input - c.backward_weight));
        const double work = m * (c.forward + c.backward_input + c.backward_weight);
        EXPECT_NEAR(validate(make_schedule(ScheduleKind::ZeroBubble, ranks, 1, m), c).length, work + idle,
                    1e-9)
            << ranks << " ranks, " << m << " micro-batches, weights " << c.backward_weight;
      }
}

TEST(Schedules, KeepNoMoreInFlightThanTheyShould) {
  for_each_case([](const Case& c) {
    const ScheduleReport r = report(c);
    for (int rank = 0; rank < c.ranks; ++rank) {
      const int all = c.virtual_stages * c.micro_batches, one = std::min(c.ranks - rank, c.micro_batches);
      const int group = (c.virtual_stages - 1) * c.ranks + 2 * (c.ranks - 1 - rank) + 1;
      const int peak = r.peak_in_flight[std::size_t(rank)], late = r.peak_late_weights[std::size_t(rank)];
      switch (c.kind) {
        case ScheduleKind::GPipe:
          EXPECT_EQ(peak, all) << c.name();
          break;
        case ScheduleKind::Interleaved:
          EXPECT_LE(peak, std::min(group, all)) << c.name();
          EXPECT_TRUE(c.micro_batches % c.ranks != 0 || peak == std::min(group, all))
              << c.name() << " " << peak;
          break;
        default:
          EXPECT_EQ(peak, one) << c.name() << ", rank " << rank;
      }
      const bool splits = c.kind == ScheduleKind::ZeroBubble;
      EXPECT_EQ(late, splits ? std::min(rank + 1, c.micro_batches) : 0) << c.name() << ", rank " << rank;
    }
  });
}

// In flight and late together: never more than the first rank of 1f1b has in flight.
TEST(Schedules, ZeroBubbleNeedsNoMoreMemoryThan1F1B) {
  for_each_case([](const Case& c) {
    if (c.kind != ScheduleKind::ZeroBubble) return;
    for (const auto& rank : make_schedule(c.kind, c.ranks, 1, c.micro_batches).actions) {
      int kept = 0;
      for (const Action& a : rank) {
        kept += a.kind == ActionKind::Forward ? 1 : a.kind == ActionKind::BackwardWeight ? -1 : 0;
        EXPECT_LE(kept, std::min(c.ranks, c.micro_batches)) << c.name();
      }
    }
  });
}

// The executor adds gradients in the order of the lists.
TEST(Schedules, RunBackwardOfALaterStageOfARankFirst) {
  for_each_case([](const Case& c) {
    const Schedule s = make_schedule(c.kind, c.ranks, c.virtual_stages, c.micro_batches);
    for (const auto& rank : s.actions) {
      std::vector<int> last(std::size_t(c.micro_batches), s.stages);  // by micro-batch
      for (const Action& a : rank) {
        if (a.kind != ActionKind::Backward && a.kind != ActionKind::BackwardInput) continue;
        EXPECT_LT(a.stage, std::exchange(last[std::size_t(a.micro_batch)], a.stage)) << c.name();
      }
    }
  });
}

TEST(Schedules, RefuseStagesThatTheyCannotHave) {
  const auto refusal = [](ScheduleKind kind, int virtual_stages) -> std::string {
    try {
      make_schedule(kind, 4, virtual_stages, 8);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(ScheduleKind::GPipe, 3), "");
  EXPECT_EQ(refusal(ScheduleKind::OneForwardOneBackward, 2),
            "schedule 1f1b with 2 stages a rank, allowed is 1");
  EXPECT_EQ(refusal(ScheduleKind::ZeroBubble, 2), "schedule zero_bubble with 2 stages a rank, allowed is 1");
  EXPECT_EQ(refusal(ScheduleKind::Interleaved, 1),
            "schedule interleaved with 1 stages a rank, allowed is at least 2");
  EXPECT_EQ(refusal(ScheduleKind::GPipe, 0), "schedule gpipe with 0 stages a rank, allowed is at least 1");
  EXPECT_THROW(make_schedule(ScheduleKind::GPipe, 0, 1, 1), Error);
  EXPECT_THROW(make_schedule(ScheduleKind::GPipe, 1, 1, 0), Error);
}

}  // namespace
}  // namespace strata::pipeline
