#include "model/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace strata::model {
namespace {

// The `count` best tokens, best first.
std::vector<std::int64_t> best(const std::vector<double>& logits, std::int64_t count) {
  std::vector<std::int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](std::int64_t a, std::int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  ids.resize(count);
  return ids;
}

}  // namespace

void SamplingRule::validate() const {
  if (!(temperature >= 0 && std::isfinite(temperature)))
    throw InputError(concat("temperature is ", temperature, "; a number from 0 is allowed"));
  if (top_k < 0)
    throw InputError(concat("top-k is ", top_k, "; a whole number from 0 (all tokens) is allowed"));
  if (!(top_p > 0 && top_p <= 1))
    throw InputError(concat("top-p is ", top_p, "; a number above 0 and up to 1 is allowed"));
}

std::int64_t Sampler::next(const std::vector<double>& logits) {
  STRATA_CHECK(std::none_of(logits.begin(), logits.end(), [](double x) { return std::isnan(x); }),
               "a logit is not a number");
  const std::int64_t V = std::int64_t(logits.size());
  const bool greedy = rule_.temperature == 0;
  const std::vector<std::int64_t> ids = best(logits, greedy            ? 1
                                                     : rule_.top_k > 0 ? std::min(rule_.top_k, V)
                                                                       : V);
  const double highest = logits[ids[0]];
  STRATA_CHECK(std::isfinite(highest), "the highest logit is ", highest);
  if (greedy) return ids[0];
  std::vector<double> weight(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    weight[i] = std::exp((logits[ids[i]] - highest) / rule_.temperature);
  const double enough = rule_.top_p * std::accumulate(weight.begin(), weight.end(), 0.0);
  std::size_t kept = 0;
  double total = 0, sum = 0;
  while (kept < ids.size() && total < enough) total += weight[kept++];
  const double point = random_.uniform(draws_++) * total;
  for (std::size_t i = 0; i + 1 < kept; ++i)
    if (point < (sum += weight[i])) return ids[i];
  return ids[kept - 1];
}

}  // namespace strata::model
