// Where a run begins: at the newest sound checkpoint of its folder, if the configuration and the data are the
// checkpoint's own.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "train/run_folder.h"

namespace strata::train {

// None: from the beginning. Changed hyper-parameters and changed data are listed old and new: InputError,
// unless `allow_changes`, then `report` gets the list. Values that change no number (where to log, what to
// recompute, how often to save) may always change. InputError, too, where checkpoints are there but none is
// sound.
std::optional<checkpoint::Opened> find_start(const RunConfig& config, const std::string& data_fingerprint,
                                             const RunFolder& folder, checkpoint::CheckpointStore& store,
                                             bool allow_changes,
                                             const std::function<void(const std::string&)>& report);

}  // namespace strata::train
