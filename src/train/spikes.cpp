#include "train/spikes.h"

#include <cmath>

namespace strata::train {

double SpikeDetector::deviations(double loss) const {
  if (losses_.size() < window_) return 0;
  double mean = 0, variance = 0;
  for (const double x : losses_) mean += x / double(window_);
  for (const double x : losses_) variance += (x - mean) * (x - mean) / double(window_);
  return variance > 0 ? (loss - mean) / std::sqrt(variance) : 0;
}

void SpikeDetector::add(double loss) {
  if (losses_.size() == window_) losses_.erase(losses_.begin());
  losses_.push_back(loss);
}

void SpikeDetector::restore(std::vector<double> losses) {
  if (losses.size() > window_) losses.erase(losses.begin(), losses.end() - std::ptrdiff_t(window_));
  losses_ = std::move(losses);
}

}  // namespace strata::train
