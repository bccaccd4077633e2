// Token losses of a softmax classifier; the label −100 is not counted.
#pragma once

#include "reference/array.h"

namespace strata::reference {

inline constexpr int64_t kIgnoredLabel = -100;

struct CrossEntropyResult {
  Array token_loss;     ///< [T], 0 where the label is ignored
  Array lse;            ///< [T], log-sum-exp of the logits
  int64_t counted = 0;  ///< labels that are not ignored
  double mean = 0.0;    ///< sum of token losses / counted, 0 when nothing is counted
};

/// logits [T, V], labels [T], each in 0..V−1 or −100.
CrossEntropyResult cross_entropy(const Array& logits, const Ids& labels);

}  // namespace strata::reference
