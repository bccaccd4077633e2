// The loss of a model on a validation set.
#pragma once
#include <functional>
#include <optional>

#include "data/validation.h"
#include "train/trainer.h"

namespace strata::train {

struct Evaluation {
  double loss = 0;  // nats per counted label
  std::int64_t windows = 0, labels = 0;
  std::optional<std::int64_t> bytes;    // of text that the labels stand for; unset where data.tokenizer is
  std::optional<double> bits_per_byte;  // sum of nats / ln 2 / bytes; unset without a byte, too
};

// The first `windows` windows of the set (all, if it has no more), `rows` at a time. `go_on` is asked before
// each batch; nothing comes back once it says no.
std::optional<Evaluation> evaluate(Trainer& trainer, const data::ValidationData& set, std::int64_t windows,
                                   std::int64_t rows, const std::function<bool()>& go_on);

}  // namespace strata::train
