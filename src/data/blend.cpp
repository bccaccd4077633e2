#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace strata::data {

Blend::Blend(const std::vector<double>& weights) {
  constexpr double kResolution = 0x1p32;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (const double w : weights)
    parts_.push_back(std::max<std::int64_t>(1, std::llround(w / sum * kResolution)));
  total_ = std::accumulate(parts_.begin(), parts_.end(), std::int64_t(0));
}

// The source whose next sample is due first: least (2 count + 1) / part, compared without rounding.
std::size_t Blend::next(const std::vector<std::int64_t>& counts) const {
  std::size_t best = 0;
  for (std::size_t i = 1; i < counts.size(); ++i) {
    const __int128 mine = __int128(2 * counts[i] + 1) * parts_[best];
    if (mine < __int128(2 * counts[best] + 1) * parts_[i]) best = i;
  }
  return best;
}

std::vector<std::int64_t> Blend::counts(std::int64_t samples) const {
  STRATA_CHECK(samples >= 0, "samples ", samples);
  std::vector<std::int64_t> counts(sources());
  // At time t = (samples - k) / total, what is due is floor(t part + 1/2) samples of each source: these all
  // belong to the prefix, since they are at most samples - k + k / 2. The rest, at most 2 k, is walked.
  const std::int64_t time = std::max<std::int64_t>(0, samples - std::int64_t(sources()));
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    reached += counts[i] = std::int64_t((2 * __int128(time) * parts_[i] + total_) / (2 * total_));
  for (; reached < samples; ++reached) ++counts[next(counts)];
  return counts;
}

Blend::Place Blend::at(std::int64_t sample) const {
  const std::vector<std::int64_t> before = counts(sample);
  const std::size_t source = next(before);
  return {source, before[source]};
}

}  // namespace strata::data
