// A file of token ids, memory-mapped and read-only. Megatron (.bin with .idx), llm.c and nanoGPT files are
// told apart by content; whatever is not sound is refused with InputError naming file and fault.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/element_type.h"
#include "data/mapped_file.h"

namespace strata::data {

enum class TokenFormat { Megatron, LlmC, NanoGpt };
constexpr auto enum_names(TokenFormat) {
  return std::array<std::string_view, 3>{"megatron", "llm.c", "nanogpt"};
}

class TokenFile {
 public:
  // `path` is a file, or the prefix of a Megatron pair. Where a file has no index and `end_of_document` is
  // given, documents end after that id (a pass over the file); else the whole file is one document.
  explicit TokenFile(const std::string& path, std::optional<std::int64_t> end_of_document = {});

  const std::string& path() const { return path_; }  // of the file that holds the tokens
  TokenFormat format() const { return format_; }
  ElementType type() const { return type_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  // First token of document d; document_begin(documents()) is tokens(). Documents follow each other without
  // gaps; one may be empty.
  std::int64_t document_begin(std::int64_t d) const;
  // Whether the file itself or an id in it says where documents end.
  bool knows_documents() const { return format_ == TokenFormat::Megatron || has_ends_; }

  // Tokens [first, first + out.size()). InputError, naming file and position, on an id outside [0,
  // vocab_size).
  void read(std::int64_t first, std::span<std::int64_t> out, std::int64_t vocab_size) const;

  std::span<const std::byte> token_bytes() const { return token_bytes_; }
  std::span<const std::byte> index_bytes() const { return index_.bytes(); }

 private:
  void open_megatron(const std::string& index, const std::string& tokens);
  void open_single(const std::string& path);
  void open_without_index(const std::string& prefix);
  void scan_documents(std::int64_t end_of_document);

  std::string path_;
  TokenFormat format_ = TokenFormat::NanoGpt;
  ElementType type_ = ElementType::U16;
  std::int64_t tokens_ = 0, documents_ = 0;
  MappedFile file_, index_;  // index_: of Megatron
  std::span<const std::byte> token_bytes_;
  std::int64_t offsets_at_ = 0, documents_at_ = 0, sequences_ = 0;  // in index_
  bool has_ends_ = false;
  std::vector<std::int64_t> ends_;  // of documents, where found by id
};

}  // namespace strata::data
