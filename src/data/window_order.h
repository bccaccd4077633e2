// The order in which one file is read: per epoch, its documents are shuffled and put one after the other,
// this stream is cut into windows of seq_length + 1 tokens that overlap by one, and the windows are shuffled.
// Up to seq_length tokens at the end of an epoch's stream are left out of that epoch.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/philox.h"
#include "data/permutation.h"
#include "data/token_file.h"

namespace strata::data {

// Part of a window: tokens that follow each other in the file, all of one document.
struct Piece {
  std::int64_t document, first, count;
};

class WindowOrder {
 public:
  // `stream` tells apart what else is shuffled by the same seed. `file` outlives this. InputError if it is
  // shorter than one window.
  WindowOrder(const TokenFile& file, std::int64_t seq_length, std::uint64_t seed, std::int64_t stream);

  std::int64_t windows() const { return windows_; }
  // The pieces of sample i, i >= 0; their counts sum up to seq_length + 1. A change of epoch costs a pass
  // over the documents.
  std::vector<Piece> sample(std::int64_t i);

 private:
  void enter(std::int64_t epoch);
  std::size_t place_of(std::int64_t at) const;

  const TokenFile& file_;
  std::int64_t seq_length_, windows_;
  std::uint64_t seed_;
  std::int64_t stream_;
  // Of the epoch we are in:
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;   // documents as they follow each other
  std::vector<std::int64_t> begins_;  // where in the stream each begins
  std::optional<Permutation> windows_order_;
};

}  // namespace strata::data
