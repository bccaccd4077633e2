#include "model/batch.h"

#include <map>

namespace strata::model {
namespace {

Tensor upload_ids(device::Device& device, const std::vector<std::int64_t>& values) {
  Tensor t(device, {std::int64_t(values.size())}, DType::Int32, device::Purpose::Data);
  from_host(device, t, values);
  return t;
}

// Kernels compare document ids only: any integers do, renumbered to fit.
std::vector<std::int64_t> renumbered(const std::vector<std::int64_t>& documents) {
  std::map<std::int64_t, std::int64_t> number;
  std::vector<std::int64_t> out;
  for (const std::int64_t d : documents)
    out.push_back(number.try_emplace(d, std::int64_t(number.size())).first->second);
  return out;
}

// What multi-token prediction is to predict from position i of a row that ends before `end`.
std::int64_t next_label(const HostBatch& b, std::int64_t i, std::int64_t end) {
  if (i + 1 == end || b.labels[i] == kIgnoreLabel) return kIgnoreLabel;
  return b.documents.empty() || b.documents[i] == b.documents[i + 1] ? b.labels[i + 1] : kIgnoreLabel;
}

}  // namespace

NextTokens next_tokens(const HostBatch& b) {
  NextTokens next;
  for (std::int64_t r = 0; r < b.rows; ++r)
    for (std::int64_t i = r * b.length, end = i + b.length; i < end; ++i) {
      next.ids.push_back(i + 1 == end ? 0 : b.input_ids[i + 1]);
      next.labels.push_back(next_label(b, i, end));
    }
  return next;
}

Counts count(const HostBatch& b) {
  Counts c{.labels = 0, .next_labels = 0, .tokens = b.rows * b.length, .sequences = b.rows};
  for (std::int64_t r = 0; r < b.rows; ++r)
    for (std::int64_t i = r * b.length, end = i + b.length; i < end; ++i) {
      c.labels += b.labels[i] != kIgnoreLabel;
      c.next_labels += next_label(b, i, end) != kIgnoreLabel;
    }
  return c;
}

nn::Context MicroBatch::context(const Counts& counts) const {
  return {.sequences = {rows, length, documents.view(), history ? history->tokens() : 0},
          .global_sequences = counts.sequences,
          .global_tokens = counts.tokens,
          .history = history,
          .micro_batch = number};
}

MicroBatch upload(device::Device& device, const HostBatch& b, bool with_next) {
  MicroBatch m{.rows = b.rows,
               .length = b.length,
               .ids = upload_ids(device, b.input_ids),
               .labels = upload_ids(device, b.labels),
               .next_ids = {},
               .next_labels = {},
               .documents = {}};
  if (with_next) {
    const NextTokens next = next_tokens(b);
    m.next_ids = upload_ids(device, next.ids);
    m.next_labels = upload_ids(device, next.labels);
  }
  if (!b.documents.empty()) m.documents = upload_ids(device, renumbered(b.documents));
  return m;
}

}  // namespace strata::model
