// Starts the ranks that a configuration asks for, and knows what mpirun or srun said about this process. The
// only reader of their environment.
#pragma once
#include <functional>
#include <string>

#include "comm/world.h"
#include "train/config.h"

namespace strata::tools {

// Runs `rank_main` as every rank of this process and gives the first exit status that is not 0. CPU threads
// are divided over the ranks on a host unless backend.threads or OMP_NUM_THREADS says how many each has.
// InputError if the launcher and the configuration disagree on who starts ranks.
int launch(const train::BackendSection& backend, const std::function<int(comm::World&)>& rank_main);

// This process among those that a launcher started: 0 if it started none.
int launched_rank();

// What stands before the sentence that this process ends with: "rank 3: " where a launcher started others
// too, empty on the first. What is wrong is mostly wrong on all ranks: the others leave the first one time to
// say so: mpirun ends the others about a second later.
std::string speaker();

}  // namespace strata::tools
