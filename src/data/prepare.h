// Text and JSONL files into one Megatron token file: read in pieces, encoded in parallel, written in order.
// The output is the same, byte for byte, at any number of workers.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/element_type.h"
#include "data/tokenizer.h"

namespace strata::data {

struct PrepareOptions {
  std::vector<std::string> inputs = {};  // .txt: one document a file; .jsonl: one a line
  std::string output = {};               // prefix of the .bin and the .idx
  TokenizerKind tokenizer = TokenizerKind::Byte;
  std::string jsonl_key = "text";
  bool append_eod = true;  // the end-of-document id after each document
  std::int64_t workers = 1;
  bool overwrite = false;
};

struct PrepareCounts {
  std::int64_t documents = 0;                      // written
  std::int64_t empty = 0;                          // documents without text, left out
  std::int64_t tokens = 0;                         // end-of-document ids included
  std::int64_t bytes = 0;                          // of text
  std::int64_t bytes_read = 0, bytes_to_read = 0;  // of files
};

// InputError for input that cannot be read or is no JSONL, naming file and line, and for output that is there
// or cannot be made; Error if writing fails. In both cases no file is left. `progress` is called now and
// then.
PrepareCounts prepare(const PrepareOptions& options,
                      const std::function<void(const PrepareCounts&)>& progress = {});

}  // namespace strata::data
