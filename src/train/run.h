// A whole training run: data, steps, validation, checkpoints, progress for people and metrics for programs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json_config.h"
#include "comm/mesh.h"
#include "train/config.h"
#include "train/faults.h"

namespace strata::train {

struct RunOptions {
  bool overwrite = false;      // start anew: what an earlier run left in the folder is removed
  bool allow_changes = false;  // go on from a checkpoint that was made with other hyper-parameters or data
  Faults faults = {};          // of this rank
  std::function<void(const std::string&)> last_resort = {};  // Watchdog::Options::last
};

// Trains to config.training.iterations() steps; check_trainable(config) has passed. Goes on from the newest
// sound checkpoint in the run's folder, bit for bit as if it had never stopped; ends early, saved, at a stop
// request (stop.h; signals, where the caller has StopSignals). The folder gets config.json (the resolved
// configuration), origins.json (who gave each value), the metrics and the checkpoints. Validation sets are
// read from their start, every training.eval_interval steps and after the last one. A step whose loss or
// gradient norm is not finite changes nothing (resilience.nan); its batch is recorded. Error once too many
// steps in a row had to be skipped.
// All ranks of the mesh call it; the first one writes and speaks.
void run(const RunConfig& config, const std::vector<ValueOrigin>& origins, const RunOptions& options,
         const comm::Mesh& mesh);

}  // namespace strata::train
