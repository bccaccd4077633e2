// Reads text files and JSONL files in pieces that can be encoded apart from each other.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer.h"

namespace strata::data {

// Of a JSONL file: whole lines, each a document. Of a text file, which is one document: the next part of it.
struct TextPiece {
  std::string text;
  std::string file;
  std::int64_t first_line = 1;  // of JSONL
  bool is_jsonl = false;
  bool ends_document = false;  // of a text file: its last part
  bool is_empty = false;       // a text file without any text
};

class TextInput {
 public:
  // All files are opened once: InputError if one is missing, cannot be read or ends neither in .txt nor in
  // .jsonl.
  TextInput(std::vector<std::string> files, const Tokenizer& tokenizer);
  ~TextInput();

  // The next piece in the order of the files; nothing after the last.
  std::optional<TextPiece> next();
  std::int64_t bytes() const { return bytes_; }  // of all files

 private:
  void fill(std::size_t wanted);
  void close();
  TextPiece next_lines();
  TextPiece next_text();

  std::vector<std::string> files_;
  const Tokenizer& tokenizer_;
  std::int64_t bytes_ = 0;
  std::size_t at_ = 0;  // the file we are in
  int fd_ = -1;
  bool at_end_ = false;     // of the file's bytes
  std::string ahead_;       // read, but not yet given
  std::int64_t line_ = 1;   // of the first line in ahead_
  bool has_given_ = false;  // some of this file
};

}  // namespace strata::data
