#include "data/window_order.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace strata::data {

WindowOrder::WindowOrder(const TokenFile& file, std::int64_t seq_length, std::uint64_t seed,
                         std::int64_t stream)
    : file_(file),
      seq_length_(seq_length),
      windows_((file.tokens() - 1) / seq_length),
      seed_(seed),
      stream_(stream) {
  if (windows_ < 1)
    throw InputError(concat(file.path(), " has ", file.tokens(),
                            " tokens; one window of training.seq_length ", seq_length, " needs ",
                            seq_length + 1));
}

void WindowOrder::enter(std::int64_t epoch) {
  if (epoch == epoch_) return;
  const std::string name = concat("source ", stream_, ", epoch ", epoch);
  windows_order_.emplace(windows_, Philox(seed_, "order of windows, " + name));
  const std::int64_t n = file_.documents();
  order_.resize(std::size_t(n));
  std::iota(order_.begin(), order_.end(), 0);
  const Philox random(seed_, "order of documents, " + name);
  for (std::int64_t i = n - 1; i > 0; --i)
    std::swap(order_[i], order_[random.bits(std::uint64_t(i)) % std::uint64_t(i + 1)]);
  begins_.resize(std::size_t(n));
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    begins_[i] = at;
    at += file_.document_begin(order_[i] + 1) - file_.document_begin(order_[i]);
  }
  epoch_ = epoch;
}

// The last document that begins at or before this token of the stream: empty ones before it are passed over.
std::size_t WindowOrder::place_of(std::int64_t at) const {
  return std::size_t(std::upper_bound(begins_.begin(), begins_.end(), at) - begins_.begin()) - 1;
}

std::vector<Piece> WindowOrder::sample(std::int64_t i) {
  STRATA_CHECK(i >= 0, "sample ", i);
  enter(i / windows_);
  std::int64_t at = (*windows_order_)(i % windows_) * seq_length_, left = seq_length_ + 1;
  std::vector<Piece> pieces;
  for (std::size_t p = place_of(at); left > 0; ++p) {
    const std::int64_t document = order_[p], begin = file_.document_begin(document);
    const std::int64_t skipped = at - begins_[p];
    const std::int64_t count = std::min(left, file_.document_begin(document + 1) - begin - skipped);
    if (count > 0) pieces.push_back({document, begin + skipped, count});
    at += count;
    left -= count;
  }
  return pieces;
}

}  // namespace strata::data
