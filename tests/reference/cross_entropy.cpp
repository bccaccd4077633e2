// loss_t = logsumexp(logits_t) − logits_t[label_t].
#include "reference/cross_entropy.h"

#include <algorithm>
#include <cmath>

namespace strata::reference {

CrossEntropyResult cross_entropy(const Array& logits, const Ids& labels) {
  const int64_t tokens = logits.dim(0), vocabulary = logits.dim(1);
  require(static_cast<int64_t>(labels.size()) == tokens, "cross_entropy: one label per token");
  CrossEntropyResult result{Array({tokens}), Array({tokens}), 0, 0.0};
  double sum = 0.0;
  for (int64_t t = 0; t < tokens; ++t) {
    double highest = logits(t, 0), total = 0.0;
    for (int64_t v = 0; v < vocabulary; ++v) highest = std::max(highest, logits(t, v));
    for (int64_t v = 0; v < vocabulary; ++v) total += std::exp(logits(t, v) - highest);
    result.lse(t) = highest + std::log(total);
    const int64_t label = labels[static_cast<size_t>(t)];
    if (label == kIgnoredLabel) continue;
    result.token_loss(t) = result.lse(t) - logits(t, label);
    sum += result.token_loss(t);
    ++result.counted;
  }
  if (result.counted > 0) result.mean = sum / static_cast<double>(result.counted);
  return result;
}

}  // namespace strata::reference
