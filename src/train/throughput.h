// How fast a run computes, and which share of the machine's peak that is.
#pragma once
#include <optional>
#include <string>

#include "train/config.h"

namespace strata::train {

class Throughput {
 public:
  // Measures the peak unless logging.peak_flops gives it or switches it off; that of `ranks` is so many times
  // it.
  explicit Throughput(const RunConfig& config, int ranks = 1);

  // Model FLOP/s: forward and backward once, whatever is recomputed; dry_run.h says what is counted.
  double flops(double tokens_per_second) const { return per_token_ * tokens_per_second; }
  // Of the peak; unset where it is switched off.
  std::optional<double> share(double tokens_per_second) const;
  // For a run's introduction.
  std::string text() const;

 private:
  double per_token_;
  double peak_;  // of a rank; 0: off
  int ranks_;
  bool measured_;
};

}  // namespace strata::train
