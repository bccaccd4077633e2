// Starts the ranks that a configuration asks for.
#pragma once
#include <functional>

#include "comm/world.h"
#include "train/config.h"

namespace strata::tools {

// Runs `rank_main` as every rank of this process and gives the first exit status that is not 0. CPU threads
// are divided over the ranks of a process unless backend.threads says how many each has.
int launch(const train::BackendSection& backend, const std::function<int(comm::World&)>& rank_main);

}  // namespace strata::tools
