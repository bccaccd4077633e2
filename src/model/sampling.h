// Choosing the next token from logits.
#pragma once
#include <cstdint>
#include <vector>

#include "base/philox.h"

namespace strata::model {

struct SamplingRule {
  double temperature = 1;  // logits are divided by it; 0: always the most probable token
  std::int64_t top_k = 0;  // of that many most probable tokens; 0: of all
  double top_p = 1;        // of the fewest most probable of these whose share of them reaches top_p

  // InputError on a value out of range, which begins with its name.
  void validate() const;
};

// Equal logits rank by index. Draw i of a seed is random number i of it: the same logits give the same
// tokens.
class Sampler {
 public:
  Sampler(const SamplingRule& rule, std::uint64_t seed) : rule_(rule), random_(seed, "sampling") {
    rule.validate();
  }
  // Error where no logit is finite or one is not a number.
  std::int64_t next(const std::vector<double>& logits);

 private:
  SamplingRule rule_;
  Philox random_;
  std::uint64_t draws_ = 0;
};

}  // namespace strata::model
