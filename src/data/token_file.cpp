#include "data/token_file.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "data/megatron_index.h"
#include "data/single_file.h"

namespace strata::data {
namespace {

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The path without this ending, if it has it.
std::optional<std::string> stem(const std::string& path, std::string_view ending) {
  if (!path.ends_with(ending)) return {};
  return path.substr(0, path.size() - ending.size());
}

}  // namespace

TokenFile::TokenFile(const std::string& path, std::optional<std::int64_t> end_of_document) {
  if (const auto prefix = stem(path, ".idx")) {
    open_megatron(path, *prefix + ".bin");
  } else if (const auto prefix = stem(path, ".bin"); prefix && is_there(*prefix + ".idx")) {
    open_megatron(*prefix + ".idx", path);
  } else if (std::error_code error; !std::filesystem::is_regular_file(path, error) &&
                                    (is_there(path + ".idx") || is_there(path + ".bin"))) {
    if (is_there(path + ".idx"))
      open_megatron(path + ".idx", path + ".bin");
    else
      open_without_index(path);
  } else {
    open_single(path);
  }
  if (!index_.bytes().empty() || !end_of_document) return;
  scan_documents(*end_of_document);
}

void TokenFile::open_megatron(const std::string& index, const std::string& tokens) {
  index_ = MappedFile(index);
  if (!is_there(tokens)) throw InputError(concat(index, " has no ", tokens, " beside it"));
  file_ = MappedFile(tokens);
  path_ = tokens;
  const MegatronIndex found =
      read_megatron_index(index_.bytes(), std::int64_t(file_.bytes().size()), index, tokens);
  format_ = TokenFormat::Megatron;
  type_ = found.type;
  tokens_ = found.tokens;
  documents_ = found.documents;
  sequences_ = found.sequences;
  offsets_at_ = found.offsets_at;
  documents_at_ = found.documents_at;
  token_bytes_ = file_.bytes();
}

void TokenFile::open_without_index(const std::string& prefix) {
  open_single(prefix + ".bin");
  // Ids alone: a pair that lost its index would pass for them, without its documents.
  if (format_ == TokenFormat::NanoGpt)
    throw InputError(
        concat(path_, " has no ", prefix, ".idx beside it; ids without index are named ", path_));
}

void TokenFile::open_single(const std::string& path) {
  file_ = MappedFile(path);
  path_ = path;
  const auto llmc = read_llmc(file_.bytes(), path);
  const TokenStream stream = llmc ? *llmc : read_nanogpt(file_.bytes(), path);
  format_ = llmc ? TokenFormat::LlmC : TokenFormat::NanoGpt;
  type_ = stream.type;
  token_bytes_ = stream.tokens;
  tokens_ = std::int64_t(token_bytes_.size()) / width(type_);
  documents_ = 1;
}

void TokenFile::scan_documents(std::int64_t end_of_document) {
  has_ends_ = true;
  with_type(type_, [&]<class T>(T) {
    for (std::int64_t i = 0; i < tokens_; ++i)
      if (std::int64_t(load<T>(token_bytes_.data() + i * std::int64_t(sizeof(T)))) == end_of_document)
        ends_.push_back(i + 1);
  });
  if (ends_.empty() || ends_.back() != tokens_) ends_.push_back(tokens_);
  documents_ = std::int64_t(ends_.size());
}

std::int64_t TokenFile::document_begin(std::int64_t d) const {
  STRATA_CHECK(d >= 0 && d <= documents_, "document ", d, " of ", documents_);
  if (d == documents_) return tokens_;
  if (d == 0) return 0;
  if (has_ends_) return ends_[std::size_t(d - 1)];
  const auto sequence = load<std::int64_t>(index_.bytes().data() + documents_at_ + 8 * d);
  if (sequence == sequences_) return tokens_;  // an empty document at the end
  return load<std::int64_t>(index_.bytes().data() + offsets_at_ + 8 * sequence) / width(type_);
}

void TokenFile::read(std::int64_t first, std::span<std::int64_t> out, std::int64_t vocab_size) const {
  const auto count = std::int64_t(out.size());
  STRATA_CHECK(first >= 0 && count <= tokens_ && first <= tokens_ - count, "tokens [", first, ", +", count,
               ") of ", tokens_);
  const auto is_outside = [&](std::int64_t id) { return id < 0 || id >= vocab_size; };
  with_type(type_, [&]<class T>(T) {
    const std::byte* at = token_bytes_.data() + first * std::int64_t(sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) out[i] = std::int64_t(load<T>(at + i * std::int64_t(sizeof(T))));
  });
  const auto bad = std::find_if(out.begin(), out.end(), is_outside);
  if (bad != out.end())
    throw InputError(concat(path_, ": token ", first + (bad - out.begin()), " is ", *bad, "; ids are 0 to ",
                            vocab_size - 1, " (model.vocab_size)"));
}

}  // namespace strata::data
