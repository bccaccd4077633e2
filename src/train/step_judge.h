// Whether a step's gradients shall be used, and whether a run shall go on, as the resilience section says.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "train/config.h"
#include "train/spikes.h"
#include "train/trainer.h"

namespace strata::train {

class StepJudge {
 public:
  explicit StepJudge(const ResilienceSection& rules) : rules_(rules), spikes_(rules.spike_window) {}

  // Why this step's gradients should not be used; empty: they should. A spike that is only logged goes to
  // `warn`.
  std::string fault(const StepResult& r, const std::function<void(const std::string&)>& warn) const;
  // The step was used: later losses are compared with its own.
  void add(const StepResult& r) { spikes_.add(r.loss); }
  // Why going on behind this step makes no sense; empty: it does.
  std::string end(const StepResult& r, std::int64_t skipped_in_a_row) const;

  // What it compares with, for checkpoints.
  const std::vector<double>& losses() const { return spikes_.losses(); }
  void restore(std::vector<double> losses) { spikes_.restore(std::move(losses)); }

 private:
  const ResilienceSection& rules_;
  SpikeDetector spikes_;
};

}  // namespace strata::train
