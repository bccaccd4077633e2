#include "train/weights.h"

#include "model/stage.h"
#include "train/file_shape.h"

namespace strata::train {
namespace {

using Words = std::vector<std::string>;

std::string list(const Words& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 3 ? concat(text, " and ", names.size() - 3, " more") : text;
}

}  // namespace

void check_weights(const ParameterStore& store, const checkpoint::NamedWeights& weights) {
  Words missing, unknown, other;
  for (const auto& [name, found] : store.by_name()) {
    const auto w = weights.all.find(name);
    const std::vector<std::int64_t> want = shape_of(found.slice.dims);
    if (w == weights.all.end())
      missing.push_back(name);
    else if (w->second.shape != want)
      other.push_back(concat(name, " is ", text_of(w->second.shape), ", the model has ", text_of(want)));
  }
  for (const auto& [name, w] : weights.all)
    if (!store.by_name().count(name)) unknown.push_back(name);
  std::string faults;
  const auto add = [&](const char* what, const Words& names) {
    if (!names.empty()) faults += concat(faults.empty() ? " " : "; it ", what, list(names));
  };
  add("lacks weights of this model: ", missing);
  add("has weights this model does not have: ", unknown);
  add("has weights of other shapes: ", other);
  if (!faults.empty()) throw InputError(weights.path + faults);
}

void load_weights(ParameterStore& store, const checkpoint::NamedWeights& weights) {
  check_weights(store, weights);
  for (const auto& [name, found] : store.by_name()) store.set(name, weights.all.at(name).read());
}

void load_weights(ParameterStore& store, const checkpoint::NamedWeights& weights,
                  const model::ModelConfig& model) {
  ParameterStore names;
  model::add_parameters(model, names);
  check_weights(names, weights);
  for (const auto& [name, found] : store.by_name()) store.set(name, weights.all.at(name).read());
}

void load_weights(ParameterStore& store, const checkpoint::SafetensorsFile& file) {
  load_weights(store, checkpoint::named_weights(file));
}

}  // namespace strata::train
