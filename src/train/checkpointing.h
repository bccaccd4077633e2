// A run's state as a checkpoint, and back: weights (masters and router biases by their names, one whole in
// one file), moments (whole, or in pieces), state.json (Progress), config.json, origins.json. One rank alone
// writes model.safetensors and optimizer.safetensors; of N each writes model-00001-of-0000N.safetensors and
// optimizer-00001-of-0000N.safetensors, and the first an index as Hugging Face's beside them.
#pragma once
#include <string>

#include "checkpoint/store.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace strata::train {

// This rank's part: host copies, taken after all work so far. Every rank calls it.
checkpoint::Snapshot capture(Trainer& trainer, const Progress& progress, const std::string& config_json,
                             const std::string& origins_json);

// Bytes of those copies.
std::int64_t captured_bytes(Trainer& trainer);

// What this rank has of weights, biases and moments, and step counts, from a checkpoint of any layout;
// returns the progress. InputError, on every rank, where the checkpoint is not of this model or optimizer.
Progress restore(Trainer& trainer, const checkpoint::Opened& opened);

}  // namespace strata::train
