#include "data/config.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace strata::data {

void TrainSource::fields(FieldVisitor& v) {
  v("path", path, "token file: Megatron (prefix, .bin or .idx), llm.c or nanoGPT", not_empty().required());
  v("weight", weight, "its part of the samples, relative to the other weights",
    Rule{.low = 0, .high = 1e9, .low_open = true});
  v("max_epochs", max_epochs, "refuse to begin a run that repeats it more often; unset: no limit", above(0));
}

void ValidationSource::fields(FieldVisitor& v) {
  v("path", path, "token file, as in data.train", not_empty().required());
}

void DataSection::fields(FieldVisitor& v) {
  v("train", train, "token files to train on");
  v("validation", validation, "token files to evaluate on, by name");
  v("tokenizer", tokenizer,
    "what made the token files: counts bytes, ends documents in files without index; unset: not known");
  v("reset_attention_mask", reset_attention_mask, "tokens see only their own document");
  v("eod_mask_loss", eod_mask_loss, "do not predict the first token of a document from the one before it");
}

void DataSection::validate() const {
  for (const auto& [name, source] : validation)
    if (!std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; }))
      throw InputError("validation has the name \"" + name +
                       "\", allowed are letters, digits, hyphens and underscores");
}

}  // namespace strata::data
