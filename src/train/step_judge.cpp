#include "train/step_judge.h"

#include <cmath>

#include "train/run_text.h"

namespace strata::train {
namespace {

bool is_finite(const StepResult& r) { return std::isfinite(r.loss) && std::isfinite(r.grad_norm); }

}  // namespace

std::string StepJudge::fault(const StepResult& r, const std::function<void(const std::string&)>& warn) const {
  if (!is_finite(r)) return concat("loss ", r.loss, ", grad norm ", r.grad_norm);
  const double deviations = spikes_.deviations(r.loss);
  if (rules_.spike_sigma == 0 || deviations <= rules_.spike_sigma) return "";
  const std::string fault = format("loss %.4f is %.1f standard deviations above the last %lld", r.loss,
                                   deviations, (long long)rules_.spike_window);
  if (rules_.spike_action == SpikeAction::Skip) return fault;
  warn(concat("step ", r.step, ": ", fault));
  return "";
}

std::string StepJudge::end(const StepResult& r, std::int64_t skipped_in_a_row) const {
  if (rules_.nan == OnNan::Stop && !is_finite(r))
    return concat("step ", r.step, ": loss ", r.loss, ", grad norm ", r.grad_norm,
                  "; the run stops (resilience.nan)");
  if (skipped_in_a_row >= rules_.max_consecutive_skips)
    return concat("step ", r.step, ": ", skipped_in_a_row,
                  " steps in a row were skipped (resilience.max_consecutive_skips); the run stops");
  return "";
}

}  // namespace strata::train
