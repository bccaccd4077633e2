// A whole training run: data, steps, validation, progress for people and metrics for programs.
#pragma once
#include <vector>

#include "base/json_config.h"
#include "train/config.h"

namespace strata::train {

// Trains config.training.iterations() steps; check_trainable(config) has passed. The run's folder is made and
// gets config.json (the resolved configuration), origins.json (who gave each value) and the metrics. A folder
// that holds those of an earlier run is refused (InputError) unless `overwrite`. Validation, where
// data.validation is given, is over the first windows of its text in file order, every training.eval_interval
// steps and after the last step. Error at a loss or gradient norm that is not finite.
void run(const RunConfig& config, const std::vector<ValueOrigin>& origins, bool overwrite);

}  // namespace strata::train
