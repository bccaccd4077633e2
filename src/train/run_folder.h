// The folder of a run: what it was told, and its metrics.
#pragma once
#include <string>
#include <vector>

#include "base/json_config.h"
#include "train/config.h"

namespace strata::train {

// Makes the folder with config.json and origins.json in it; returns the path of the metrics file. InputError
// if it cannot be written, or holds one of these files already, unless `overwrite`: then they are replaced.
std::string prepare_folder(const RunConfig& config, const std::vector<ValueOrigin>& origins, bool overwrite);

}  // namespace strata::train
