#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

namespace strata::train {

std::optional<Evaluation> evaluate(Trainer& trainer, const data::ValidationData& set, std::int64_t windows,
                                   std::int64_t rows, const std::function<bool()>& go_on) {
  windows = std::min(windows, set.windows());
  double nats = 0;
  Evaluation e;
  e.windows = windows;
  for (std::int64_t first = 0; first < windows; first += rows) {
    if (!go_on()) return std::nullopt;
    const HostBatch batch = set.batch(first, std::min(rows, windows - first));
    const std::int64_t labels = model::count(batch).labels;
    if (labels > 0) nats += trainer.evaluate(batch) * double(labels);
    e.labels += labels;
    if (const std::optional<std::int64_t> more = set.bytes(batch)) e.bytes = e.bytes.value_or(0) + *more;
  }
  e.loss = e.labels > 0 ? nats / double(e.labels) : 0;
  if (e.bytes.value_or(0) > 0) e.bits_per_byte = nats / std::log(2.0) / double(*e.bytes);
  return e;
}

}  // namespace strata::train
