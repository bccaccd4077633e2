// Named validation sets, read in file order.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "tensor/host_batch.h"

namespace strata::data {

// Windows of seq_length + 1 tokens that overlap by one: every token but the first is a target exactly once.
// The last window is filled up with tokens that are not counted.
class ValidationData {
 public:
  // `name` is one of section.validation. InputError if it cannot be used or has less than two tokens.
  ValidationData(const DataSection& section, const std::string& name, std::int64_t seq_length,
                 std::int64_t vocab_size);

  const std::string& name() const { return name_; }
  const std::string& path() const { return file_.path(); }
  std::int64_t tokens() const { return file_.tokens(); }
  // 32 hex digits of its content.
  std::string fingerprint() const;
  std::int64_t windows() const { return (tokens() - 2) / seq_length_ + 1; }
  // Windows [first, first + rows), which must be there.
  HostBatch batch(std::int64_t first, std::int64_t rows) const;
  // Bytes of text that the counted labels stand for: bits per byte is the sum of nats / ln 2 / bytes. Unset
  // where data.tokenizer is.
  std::optional<std::int64_t> bytes(const HostBatch& batch) const;
  // The same of all windows.
  std::optional<std::int64_t> bytes() const;

 private:
  std::string name_;
  std::int64_t seq_length_, vocab_size_;
  bool reset_attention_mask_, eod_mask_loss_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TokenFile file_;
};

// All sets of the section, by name.
std::vector<ValidationData> open_validation(const DataSection& section, std::int64_t seq_length,
                                            std::int64_t vocab_size);

}  // namespace strata::data
