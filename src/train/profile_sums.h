// Where a rank's time went: computing, waiting for data on their way (exposed communication), waiting for
// ranks that had not come that far (bubble), and the rest (idle).
#pragma once
#include <array>
#include <optional>

#include "train/timeline.h"

namespace strata::train {

// Seconds, over all steps that were watched. Communication is under way from when its last rank began it.
struct CommSums {
  double under_way = 0;  // at least one operation
  double exposed = 0;    // the compute stream stood still, and data were on their way
  double bubble = 0;     // it stood still, and another rank had yet to begin
  double operations = 0, sent = 0, received = 0;  // counts; bytes

  // The share of the time under way in which the compute stream did something else; none: nothing was under
  // way.
  std::optional<double> hidden() const;
};

struct ProfileSums {
  int watched = 0;  // steps; 0: this rank was not asked
  double step = 0;  // of all of them
  std::array<double, device::kPhases> compute = {};
  CommSums all;
  std::array<CommSums, kCommKinds> kinds;

  double computed() const;
  double idle() const;  // the rest
  // Of the step: compute, exposed, bubble, idle; tenths, their sum is 100.
  std::array<double, 4> percent() const;
};

// After Timeline::meet.
ProfileSums sums_of(const Timeline& timeline);

}  // namespace strata::train
