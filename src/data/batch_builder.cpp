#include "data/batch_builder.h"

#include "base/error.h"
#include "data/tokenizer.h"

namespace strata::data {

BatchBuilder::BatchBuilder(std::int64_t seq_length, bool with_documents, bool mask_boundaries)
    : batch_{.rows = 0, .length = seq_length, .input_ids = {}, .labels = {}, .documents = {}},
      with_documents_(with_documents),
      mask_boundaries_(mask_boundaries) {}

void BatchBuilder::add(std::span<const std::int64_t> tokens, std::span<const std::int64_t> documents) {
  const auto count = std::int64_t(tokens.size());
  STRATA_CHECK(count >= 1 && count <= batch_.length + 1 && tokens.size() == documents.size(), "tokens ",
               count, ", documents ", documents.size(), ", length ", batch_.length);
  const std::int64_t none = documents.back() + 1;
  for (std::int64_t i = 0; i < batch_.length; ++i) {
    const bool is_target = i + 1 < count && !(mask_boundaries_ && documents[i] != documents[i + 1]);
    batch_.input_ids.push_back(i < count ? tokens[i] : 0);
    batch_.labels.push_back(is_target ? tokens[i + 1] : kIgnoreLabel);
    if (with_documents_) batch_.documents.push_back(i < count ? documents[i] : none);
  }
  ++batch_.rows;
}

namespace {

TokenFile open_file(const std::string& key, const std::string& path, std::optional<std::int64_t> end) {
  try {
    return TokenFile(path, end);
  } catch (const InputError& e) {
    throw InputError(concat(key, ".path: ", e.what()));
  }
}

}  // namespace

TokenFile open_source(const DataSection& section, const std::string& key, const std::string& path) {
  std::optional<std::int64_t> end;
  if (section.tokenizer) end = make_tokenizer(*section.tokenizer)->end_of_document();
  TokenFile file = open_file(key, path, end);
  if ((section.reset_attention_mask || section.eod_mask_loss) && !file.knows_documents())
    throw InputError(concat("data.", section.reset_attention_mask ? "reset_attention_mask" : "eod_mask_loss",
                            " needs to know where documents end, but ", key, " (", file.path(),
                            ") has no index, and data.tokenizer is unset"));
  return file;
}

}  // namespace strata::data
