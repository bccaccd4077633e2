#include "checkpoint/named_weights.h"

#include <memory>

namespace strata::checkpoint {
namespace {

void add(NamedWeights& weights, const std::shared_ptr<const SafetensorsFile>& file) {
  for (const auto& [name, t] : file->tensors())
    weights.all.emplace(name,
                        NamedWeight{t.shape, t.dtype, [file, name = name] { return file->floats(name); }});
}

}  // namespace

NamedWeights named_weights(const WeightSet& set) {
  NamedWeights weights{set.path(), {}};
  for (const auto& [name, file] : set.files()) add(weights, std::make_shared<const SafetensorsFile>(file));
  return weights;
}

NamedWeights named_weights(const SafetensorsFile& file) {
  NamedWeights weights{file.path(), {}};
  add(weights, std::make_shared<const SafetensorsFile>(file));
  return weights;
}

}  // namespace strata::checkpoint
