// A batch of token sequences on the host.
#pragma once
#include <cstdint>
#include <vector>

namespace strata {

constexpr std::int64_t kIgnoreLabel = -100;

// Row-major [rows, length]. labels[t] already is the token after input_ids[t]; kIgnoreLabel is not counted.
struct HostBatch {
  std::int64_t rows = 0, length = 0;
  std::vector<std::int64_t> input_ids, labels;
  std::vector<std::int64_t> documents;  // empty: every row is one document

  // Rows [begin, end).
  HostBatch slice(std::int64_t begin, std::int64_t end) const;
  // Throws InputError on a token id or label outside the vocabulary, naming row and position.
  void validate(std::int64_t vocab_size) const;
};

}  // namespace strata
