// Text to token ids and back.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/config.h"

namespace strata::data {

// Immutable: any number of threads may use one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string name() const = 0;
  // Ids are 0 to vocabulary() - 1.
  virtual std::int64_t vocabulary() const = 0;
  // The id that ends a document; no text encodes to it.
  virtual std::int64_t end_of_document() const = 0;
  // Appends the ids of `text`.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  // Length of the longest prefix whose ids do not depend on what follows it: a long text is encoded in
  // pieces.
  virtual std::size_t stable_prefix(std::string_view text) const = 0;
  // The bytes of text that an id stands for; none for the end of a document. Error for an id outside.
  virtual std::string decode(std::int64_t id) const = 0;
  // Their number; none outside the vocabulary.
  virtual std::int64_t bytes(std::int64_t id) const = 0;
};

// Ids 0 to 255 are the byte values, 256 ends a document.
class ByteTokenizer : public Tokenizer {
 public:
  static constexpr std::int64_t kEndOfDocument = 256;

  std::string name() const override { return "byte"; }
  std::int64_t vocabulary() const override { return kEndOfDocument + 1; }
  std::int64_t end_of_document() const override { return kEndOfDocument; }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::size_t stable_prefix(std::string_view text) const override { return text.size(); }
  std::string decode(std::int64_t id) const override;
  std::int64_t bytes(std::int64_t id) const override { return id >= 0 && id < kEndOfDocument ? 1 : 0; }
};

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind kind);

}  // namespace strata::data
