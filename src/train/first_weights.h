// The weights a new run begins with where checkpoint.load names a model.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "train/model_source.h"
#include "train/trainer.h"

namespace strata::train {

// The model of checkpoint.load, if it is given. overwrite: what is in `store` will be removed, so that the
// model may not be of it. InputError names checkpoint.load.
std::optional<ModelSource> open_first_weights(const RunConfig& config,
                                              const checkpoint::CheckpointStore& store, bool overwrite);
// Gives the trainer its weights; `say` gets a line, and one more for each key of the model that differs.
// InputError where they do not fit.
void load_first_weights(Trainer& trainer, const ModelSource& source,
                        const std::function<void(const std::string&)>& say);

}  // namespace strata::train
