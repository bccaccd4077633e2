// The model that a command line names.
#pragma once
#include "tools/commands.h"
#include "train/model_source.h"

namespace strata::tools {

inline train::ModelSource open_model(const ModelArguments& a) {
  if (!a.checkpoint.empty()) return train::open_model(a.checkpoint, a.config.overrides);
  return train::open_model(a.config.file, a.weights, a.config.overrides);
}

}  // namespace strata::tools
