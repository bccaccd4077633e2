#include "data/validation.h"

#include <algorithm>

#include "base/error.h"
#include "data/batch_builder.h"
#include "data/fingerprint.h"

namespace strata::data {
namespace {

// The document that token `at` belongs to: the last that begins at or before it, so none that is empty.
std::int64_t document_of(const TokenFile& file, std::int64_t at) {
  std::int64_t low = 0, high = file.documents();
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (file.document_begin(middle) <= at ? low : high) = middle;
  }
  return low;
}

}  // namespace

ValidationData::ValidationData(const DataSection& section, const std::string& name, std::int64_t seq_length,
                               std::int64_t vocab_size)
    : name_(name),
      seq_length_(seq_length),
      vocab_size_(vocab_size),
      reset_attention_mask_(section.reset_attention_mask),
      eod_mask_loss_(section.eod_mask_loss),
      tokenizer_(section.tokenizer ? make_tokenizer(*section.tokenizer) : nullptr),
      file_(open_source(section, "data.validation." + name, section.validation.at(name).path)) {
  if (tokens() < 2)
    throw InputError(concat(path(), " has ", tokens(), " tokens; a validation set needs at least 2"));
}

HostBatch ValidationData::batch(std::int64_t first, std::int64_t rows) const {
  STRATA_CHECK(first >= 0 && rows >= 0 && first <= windows() - rows, "windows [", first, ", +", rows, ") of ",
               windows());
  BatchBuilder builder(seq_length_, reset_attention_mask_, eod_mask_loss_);
  std::vector<std::int64_t> ids, documents;
  for (std::int64_t window = first; window < first + rows; ++window) {
    const std::int64_t begin = window * seq_length_, count = std::min(seq_length_ + 1, tokens() - begin);
    ids.resize(std::size_t(count));
    documents.resize(ids.size());
    file_.read(begin, ids, vocab_size_);
    std::int64_t document = document_of(file_, begin);
    for (std::int64_t i = 0; i < count; ++i) {
      while (file_.document_begin(document + 1) <= begin + i) ++document;
      documents[i] = document;
    }
    builder.add(ids, documents);
  }
  return builder.take();
}

std::optional<std::int64_t> ValidationData::bytes(const HostBatch& batch) const {
  if (!tokenizer_) return {};
  std::int64_t sum = 0;
  for (const std::int64_t label : batch.labels) sum += tokenizer_->bytes(label);
  return sum;
}

std::optional<std::int64_t> ValidationData::bytes() const {
  if (!tokenizer_) return {};
  std::int64_t sum = 0;
  for (std::int64_t window = 0; window < windows(); ++window) sum += *bytes(batch(window, 1));
  return sum;
}

std::string ValidationData::fingerprint() const {
  Fingerprint sum;
  sum.add(file_);
  return sum.hex();
}

std::vector<ValidationData> open_validation(const DataSection& section, std::int64_t seq_length,
                                            std::int64_t vocab_size) {
  std::vector<ValidationData> all;
  for (const auto& [name, source] : section.validation)
    all.emplace_back(section, name, seq_length, vocab_size);
  return all;
}

}  // namespace strata::data
