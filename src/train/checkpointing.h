// A run's state as a checkpoint, and back: model.safetensors (float32 masters and router biases by the
// weights' names), optimizer.safetensors (moments), state.json (Progress), config.json, origins.json.
#pragma once
#include <string>

#include "checkpoint/store.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace strata::train {

// Host copies, taken after all work so far.
checkpoint::Snapshot capture(Trainer& trainer, const Progress& progress, const std::string& config_json,
                             const std::string& origins_json);

// Weights, biases, moments and step counts; returns the progress. InputError where the checkpoint is not of
// this model or optimizer.
Progress restore(Trainer& trainer, const checkpoint::Opened& opened);

}  // namespace strata::train
