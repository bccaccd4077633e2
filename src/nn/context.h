// What a forward pass of one micro-batch knows besides its activations.
#pragma once
#include "nn/history.h"

namespace strata::nn {

struct Context {
  Sequences sequences;
  // Integers known before the forward pass, of the whole global batch: the only divisors of the loss.
  std::int64_t global_sequences = 0;
  std::int64_t global_tokens = 0;
  History* history = nullptr;  // earlier tokens, in incremental decoding

  // Rows as `reader` sees them: with those of earlier tokens.
  Var remembered(Tape& tape, const Parameter& reader, const Var& rows) const {
    return history ? history->all(tape, reader, rows) : rows;
  }
};

}  // namespace strata::nn
