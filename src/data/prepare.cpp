#include "data/prepare.h"

#include <algorithm>
#include <deque>
#include <future>

#include "base/error.h"
#include "data/jsonl.h"
#include "data/megatron_writer.h"
#include "data/text_input.h"

namespace strata::data {
namespace {

struct Encoded {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> ends;  // of documents, in ids
  std::int64_t empty = 0, bytes = 0, bytes_read = 0;
};

class Encoder {
 public:
  Encoder(const PrepareOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer) {}

  Encoded operator()(const TextPiece& piece) const {
    Encoded out;
    out.bytes_read = std::int64_t(piece.text.size());
    if (piece.is_jsonl) {
      lines(piece, out);
    } else if (piece.is_empty) {
      out.empty = 1;
    } else {
      text(piece.text, out);
      if (piece.ends_document) end_document(out);
    }
    return out;
  }

 private:
  void lines(const TextPiece& piece, Encoded& out) const {
    std::int64_t number = piece.first_line;
    for (std::size_t begin = 0; begin < piece.text.size(); ++number) {
      const std::size_t end = std::min(piece.text.find('\n', begin), piece.text.size());
      const auto line = std::string_view(piece.text).substr(begin, end - begin);
      begin = end + 1;
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string content = json_line_text(line, options_.jsonl_key, concat(piece.file, ":", number));
      if (content.empty()) {
        ++out.empty;
        continue;
      }
      text(content, out);
      end_document(out);
    }
  }
  void text(std::string_view content, Encoded& out) const {
    tokenizer_.encode(content, out.ids);
    out.bytes += std::int64_t(content.size());
  }
  void end_document(Encoded& out) const {
    if (options_.append_eod) out.ids.push_back(std::int32_t(tokenizer_.end_of_document()));
    out.ends.push_back(out.ids.size());
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
};

void write(const Encoded& piece, MegatronWriter& writer, PrepareCounts& counts) {
  const std::span<const std::int32_t> ids(piece.ids);
  std::size_t begin = 0;
  for (const std::size_t end : piece.ends) {
    writer.append(ids.subspan(begin, end - begin));
    writer.end_document();
    begin = end;
  }
  writer.append(ids.subspan(begin));
  counts.documents += std::int64_t(piece.ends.size());
  counts.tokens += std::int64_t(ids.size());
  counts.empty += piece.empty;
  counts.bytes += piece.bytes;
  counts.bytes_read += piece.bytes_read;
}

}  // namespace

PrepareCounts prepare(const PrepareOptions& options,
                      const std::function<void(const PrepareCounts&)>& progress) {
  STRATA_CHECK(options.workers >= 1, "workers ", options.workers);
  const auto tokenizer = make_tokenizer(options.tokenizer);
  const Encoder encode(options, *tokenizer);
  TextInput input(options.inputs, *tokenizer);
  MegatronWriter writer(options.output, tokenizer->vocabulary(), options.overwrite);
  PrepareCounts counts{.bytes_to_read = input.bytes()};
  // Pieces in the hands of workers, oldest first: written, and complained about, in the order of the input.
  std::deque<std::future<Encoded>> pieces;
  bool more = true;
  while (more || !pieces.empty()) {
    while (more && std::int64_t(pieces.size()) < options.workers) {
      std::optional<TextPiece> piece = input.next();
      more = piece.has_value();
      if (more) pieces.push_back(std::async(std::launch::async, encode, std::move(*piece)));
    }
    if (pieces.empty()) break;
    write(pieces.front().get(), writer, counts);
    pieces.pop_front();
    if (progress) progress(counts);
  }
  if (counts.tokens == 0)
    throw InputError(concat(options.inputs.front(),
                            options.inputs.size() > 1 ? " and the others hold" : " holds",
                            " no text, so there are no tokens to write to ", options.output, ".bin"));
  writer.finish();
  return counts;
}

}  // namespace strata::data
