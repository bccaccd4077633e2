// Starts the ranks that a configuration asks for, and knows what mpirun or srun said about this process. The
// only reader of their environment.
#pragma once
#include <functional>
#include <string>

#include "comm/mesh.h"
#include "train/config.h"
#include "train/watchdog.h"

namespace strata::tools {

using RankMain = std::function<int(const comm::Mesh&)>;
// The mesh of so many ranks; empty: the configuration's.
using Shape = std::function<comm::MeshShape(int ranks)>;

// Runs `rank_main` as every rank of this process, each with its place in the mesh, and gives the first exit
// status that is not 0. Ranks that are processes meet first, within Watchdog::kStart times
// resilience.watchdog_seconds; where one of them is missing the others say so and end. CPU threads are
// divided over the ranks on a host unless backend.threads or OMP_NUM_THREADS says how many each has.
// InputError if the launcher and the configuration disagree on who starts ranks, or on how many.
int launch(const train::RunConfig& config, const RankMain& rank_main, const Shape& shape = {});

// The same with a watchdog on every rank.
int launch_watched(const train::RunConfig& config, const RankMain& rank_main, const Shape& shape = {});

// For a Watchdog of a rank that launch() started: a rank that hangs where no error reaches it ends the
// process.
train::Watchdog::Options watching(const train::RunConfig& config);

// This process among those that a launcher started: 0 if it started none.
int launched_rank();

// What stands before the sentence that this process ends with: "rank 3: " where a launcher started others
// too, empty on the first. What is wrong is mostly wrong on all ranks: the others leave the first one time to
// say so: mpirun ends the others about a second later.
std::string speaker();

// Of "2(x3),1", as in SLURM_STEP_TASKS_PER_NODE, what stands for a node, counted from 0: nodes 0 to 2 have 2
// ranks, node 3 has 1. 0: the text does not say.
int tasks_on_node(const std::string& tasks_per_node, int node);

}  // namespace strata::tools
