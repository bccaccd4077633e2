// What a forward pass of one micro-batch knows besides its activations.
#pragma once
#include "base/view.h"

namespace strata::nn {

struct Context {
  Sequences sequences;
  // Integers known before the forward pass, of the whole global batch: the only divisors of the loss.
  std::int64_t global_sequences = 0;
  std::int64_t global_tokens = 0;
};

}  // namespace strata::nn
