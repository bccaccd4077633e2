// Windows of tokens into a batch: inputs, labels, and where documents end.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/config.h"
#include "data/token_file.h"
#include "tensor/host_batch.h"

namespace strata::data {

class BatchBuilder {
 public:
  BatchBuilder(std::int64_t seq_length, bool with_documents, bool mask_boundaries);

  // One row from up to seq_length + 1 tokens and the numbers of their documents; what is missing is filled up
  // with tokens that are not counted and belong to no other document.
  void add(std::span<const std::int64_t> tokens, std::span<const std::int64_t> documents);
  HostBatch take() { return std::move(batch_); }

 private:
  HostBatch batch_;
  bool with_documents_, mask_boundaries_;
};

// A file of the section, its documents found by the section's tokenizer where it has no index. `key` names it
// in messages. InputError if the section masks documents and the file does not tell them.
TokenFile open_source(const DataSection& section, const std::string& key, const std::string& path);

}  // namespace strata::data
