#include "train/weights.h"

#include "train/file_shape.h"

namespace strata::train {
namespace {

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > 3 ? concat(text, " and ", names.size() - 3, " more") : text;
}

}  // namespace

void load_weights(ParameterStore& store, const checkpoint::SafetensorsFile& file) {
  std::vector<std::string> missing, unknown;
  for (const auto& [name, found] : store.by_name())
    if (!file.has(name)) missing.push_back(name);
  for (const auto& [name, t] : file.tensors())
    if (!store.by_name().count(name)) unknown.push_back(name);
  if (!missing.empty())
    throw InputError(concat(file.path(), " lacks weights of this model: ", list(missing)));
  if (!unknown.empty())
    throw InputError(concat(file.path(), " has weights this model does not have: ", list(unknown)));
  for (const auto& [name, found] : store.by_name()) {
    const std::vector<std::int64_t> want = shape_of(found.slice.dims), have = file.at(name).shape;
    if (want != have)
      throw InputError(
          concat(file.path(), ": ", name, " is ", text_of(have), ", the model has ", text_of(want)));
    store.set(name, file.floats(name));
  }
}

}  // namespace strata::train
