// The loss of a model on a validation set.
#pragma once
#include <functional>
#include <optional>

#include "data/validation.h"
#include "train/trainer.h"

namespace strata::train {

struct Evaluation {
  double loss = 0;  // nats per counted label
  std::int64_t labels = 0;
  std::optional<double> bits_per_byte;  // of text; unset where data.tokenizer is
};

// The first `windows` windows of the set (all, if it has no more), `rows` at a time. `go_on` is asked before
// each batch; nothing comes back once it says no.
std::optional<Evaluation> evaluate(Trainer& trainer, const data::ValidationData& set, std::int64_t windows,
                                   std::int64_t rows, const std::function<bool()>& go_on);

}  // namespace strata::train
