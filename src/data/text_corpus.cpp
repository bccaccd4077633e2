#include "data/text_corpus.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace strata::data {

TextCorpus::TextCorpus(const std::string& path, std::int64_t seq_length, std::uint64_t seed)
    : seq_length_(seq_length), seed_(seed) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw InputError(concat("cannot read ", path, ": it is a directory"));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(concat("cannot read ", path, ": ", std::strerror(errno)));
  text_.assign(std::istreambuf_iterator<char>(file), {});
  if (windows() < 1)
    throw InputError(concat(path, " has ", bytes(), " bytes; one window of training.seq_length ", seq_length,
                            " needs ", seq_length + 1));
}

void TextCorpus::append(model::HostBatch& batch, std::int64_t window) const {
  const auto* at = reinterpret_cast<const unsigned char*>(text_.data()) + window * seq_length_;
  batch.input_ids.insert(batch.input_ids.end(), at, at + seq_length_);
  batch.labels.insert(batch.labels.end(), at + 1, at + seq_length_ + 1);
  ++batch.rows;
}

void TextCorpus::shuffle(std::int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  order_.resize(windows());
  std::iota(order_.begin(), order_.end(), 0);
  const Philox random(seed_, "data order, epoch " + std::to_string(epoch));
  for (std::int64_t i = windows() - 1; i > 0; --i)
    std::swap(order_[i], order_[random.bits(i) % std::uint64_t(i + 1)]);
}

model::HostBatch TextCorpus::batch(std::int64_t first, std::int64_t rows) {
  model::HostBatch batch{.rows = 0, .length = seq_length_, .input_ids = {}, .labels = {}, .documents = {}};
  for (std::int64_t i = first; i < first + rows; ++i) {
    shuffle(i / windows());
    append(batch, order_[i % windows()]);
  }
  return batch;
}

model::HostBatch TextCorpus::in_order(std::int64_t first, std::int64_t rows) const {
  model::HostBatch batch{.rows = 0, .length = seq_length_, .input_ids = {}, .labels = {}, .documents = {}};
  for (std::int64_t i = first; i < first + rows; ++i) append(batch, i % windows());
  return batch;
}

}  // namespace strata::data
