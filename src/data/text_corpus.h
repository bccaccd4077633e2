// Byte-level training text: token ids are the bytes of a file. Samples are windows of seq_length + 1 bytes
// that overlap by one; their order is a function of data, seed and sample number alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/batch.h"

namespace strata::data {

constexpr std::int64_t kByteVocabulary = 256;

class TextCorpus {
 public:
  // InputError if the file cannot be read or is shorter than one window.
  TextCorpus(const std::string& path, std::int64_t seq_length, std::uint64_t seed);

  std::int64_t bytes() const { return std::int64_t(text_.size()); }
  std::int64_t windows() const { return (bytes() - 1) / seq_length_; }
  // Samples [first, first + rows) of the endless shuffled order; every epoch is a fresh permutation of all
  // windows.
  model::HostBatch batch(std::int64_t first, std::int64_t rows);
  // Windows [first, first + rows) in file order, wrapping around.
  model::HostBatch in_order(std::int64_t first, std::int64_t rows) const;

 private:
  void append(model::HostBatch& batch, std::int64_t window) const;
  void shuffle(std::int64_t epoch);

  std::string text_;
  std::int64_t seq_length_;
  std::uint64_t seed_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;  // of epoch_
};

}  // namespace strata::data
