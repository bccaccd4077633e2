// Loss spikes: how far a loss lies above the last `window` ones, in their standard deviations.
#pragma once
#include <cstdint>
#include <vector>

namespace strata::train {

class SpikeDetector {
 public:
  explicit SpikeDetector(std::int64_t window) : window_(std::size_t(window)) {}

  // Standard deviations of `loss` above the mean; 0 until the window is full, or if all losses in it are
  // equal.
  double deviations(double loss) const;
  void add(double loss);

  // Oldest first, at most `window`; given back to another detector it goes on as this one.
  const std::vector<double>& losses() const { return losses_; }
  void restore(std::vector<double> losses);

 private:
  std::size_t window_;
  std::vector<double> losses_;
};

}  // namespace strata::train
