// The weights of a model by the names that this program uses, wherever and however files hold them.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/weight_set.h"

namespace strata::checkpoint {

struct NamedWeight {
  std::vector<std::int64_t> shape;
  std::string dtype;                          // in the file: "F32", ...
  std::function<std::vector<double>()> read;  // all values; InputError where the file cannot give them
};

struct NamedWeights {
  std::string path;  // for messages
  std::map<std::string, NamedWeight> all;
};

// As the files name them.
NamedWeights named_weights(const WeightSet& set);
NamedWeights named_weights(const SafetensorsFile& file);

}  // namespace strata::checkpoint
