#include "model/batch.h"

#include <algorithm>
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

std::int64_t counted(const std::vector<std::int64_t>& labels) {
  return std::count_if(labels.begin(), labels.end(), [](std::int64_t l) { return l != kIgnoreLabel; });
}

}  // namespace

NextTokens next_tokens(const HostBatch& b) {
  NextTokens next{std::vector<std::int64_t>(b.input_ids.size(), 0),
                  std::vector<std::int64_t>(b.input_ids.size(), kIgnoreLabel)};
  for (std::int64_t r = 0; r < b.rows; ++r)
    for (std::int64_t i = r * b.length; i + 1 < (r + 1) * b.length; ++i) {
      next.ids[i] = b.input_ids[i + 1];
      const bool same = b.documents.empty() || b.documents[i] == b.documents[i + 1];
      if (same && b.labels[i] != kIgnoreLabel) next.labels[i] = b.labels[i + 1];
    }
  return next;
}

Counts count(const HostBatch& b) {
  return {.labels = counted(b.labels),
          .next_labels = counted(next_tokens(b).labels),
          .tokens = b.rows * b.length,
          .sequences = b.rows};
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
