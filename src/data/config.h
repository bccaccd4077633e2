// What a run is told about its data: token files to train on with their shares, named validation sets, masks.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"

namespace strata::data {

enum class TokenizerKind { Byte };
constexpr auto enum_names(TokenizerKind) { return std::array<std::string_view, 1>{"byte"}; }

struct TrainSource {
  std::string path = {};  // of a token file
  double weight = 1;      // its share of the samples is weight / sum of weights
  std::optional<double> max_epochs = {};

  void fields(FieldVisitor& v);
  bool operator==(const TrainSource&) const = default;
};

struct ValidationSource {
  std::string path = {};

  void fields(FieldVisitor& v);
  bool operator==(const ValidationSource&) const = default;
};

struct DataSection {
  std::vector<TrainSource> train = {};
  std::map<std::string, ValidationSource> validation = {};
  std::optional<TokenizerKind> tokenizer = {};  // what made the token files; unset: not known
  bool reset_attention_mask = false;            // attention stays within documents
  bool eod_mask_loss = false;                   // the first token of a document is no target

  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const DataSection&) const = default;
};

}  // namespace strata::data
