// What a forward pass of one micro-batch knows besides its activations.
#pragma once
#include <map>
#include <memory>

#include "nn/history.h"
#include "ops/dispatch.h"

namespace strata::nn {

class Moe;

struct Context {
  Sequences sequences;
  // Integers known before the forward pass, of the whole global batch: the only divisors of the loss.
  std::int64_t global_sequences = 0;
  std::int64_t global_tokens = 0;
  History* history = nullptr;  // earlier tokens, in incremental decoding
  int micro_batch = 0;         // its number on this rank, to name what is waited for
  // Where rows go whose experts are spread over ranks, for recompute to find it again. Copies share it.
  using Dispatch = std::map<const Moe*, ops::DispatchPlan>;
  std::shared_ptr<Dispatch> dispatch = std::make_shared<Dispatch>();

  // Rows as `reader` sees them: with those of earlier tokens.
  Var remembered(Tape& tape, const Parameter& reader, const Var& rows) const {
    return history ? history->all(tape, reader, rows) : rows;
  }
};

}  // namespace strata::nn
