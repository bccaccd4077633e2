// Starts the ranks that a configuration asks for.
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
// InputError if the launcher and the configuration disagree on who starts ranks, or on how many, or where
// ranks were not started with the same `command` and its options, and the same configuration.
int launch(const std::string& command, const train::RunConfig& config, const RankMain& rank_main,
           const Shape& shape = {});

// The same with a watchdog on every rank.
int launch_watched(const std::string& command, const train::RunConfig& config, const RankMain& rank_main,
                   const Shape& shape = {});

// On backend.threads_ranks threads of this process, whatever started it; with a watchdog on every one.
int launch_threads(const train::RunConfig& config, const RankMain& rank_main);

// For a Watchdog of a rank that launch() started: a rank that hangs where no error reaches it ends the
// process.
train::Watchdog::Options watching(const train::RunConfig& config);

}  // namespace strata::tools
