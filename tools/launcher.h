// What mpirun or srun said about this process. The only reader of their environment.
#pragma once
#include <string>

namespace strata::tools {

// Whether a launcher started this process; how many it started, 1 if it started none; this one among them.
bool launched();
int launched_ranks();
int launched_rank();

// What stands before the sentence that this process ends with: "rank 3: " where a launcher started others
// too, empty on the first. What is wrong is mostly wrong on all ranks: the others leave the first one time to
// say so: mpirun ends the others about a second later.
std::string speaker();

// CPU threads of this process: OMP_NUM_THREADS, or a fair share of the host's for each rank on it.
int threads_of_rank();

// Of "2(x3),1", as in SLURM_STEP_TASKS_PER_NODE, what stands for a node, counted from 0: nodes 0 to 2 have 2
// ranks, node 3 has 1. 0: the text does not say.
int tasks_on_node(const std::string& tasks_per_node, int node);

}  // namespace strata::tools
