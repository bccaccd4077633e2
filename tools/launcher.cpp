#include "tools/launcher.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace strata::tools {
namespace {

// The first of these variables that is set: Open MPI's, another PMI launcher's, or that of Slurm's srun.
int from_environment(const std::vector<const char*>& names, int otherwise) {
  for (const char* name : names)
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return otherwise;
}

int ranks_here() {
  const int here = from_environment({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 0);
  if (here > 0) return here;
  const char* slurm = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  return std::max(1, slurm ? tasks_on_node(slurm, from_environment({"SLURM_NODEID"}, 0)) : 1);
}

// Whether the processors that this process may use are its own, not its host's.
bool slurm_binds() {
  if (std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE") || std::getenv("MPI_LOCALNRANKS")) return false;  // mpirun's
  const char* type = std::getenv("SLURM_CPU_BIND_TYPE");
  return type && *type && std::string(type) != "none";
}

}  // namespace

int launched_ranks() {
  return from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, 1);
}

bool launched() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE") || std::getenv("PMIX_RANK") ||
         launched_ranks() > 1;
}

int launched_rank() {
  return from_environment({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
}

std::string speaker() {
  if (!launched() || launched_rank() == 0) return {};
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  return concat("rank ", launched_rank(), ": ");
}

int threads_of_rank() {
  const int here = ranks_here();
  if (std::getenv("OMP_NUM_THREADS")) return omp_get_max_threads();
  const int allowed = omp_get_num_procs(), fair = std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)) / here);
  const bool mpirun_binds = std::getenv("OMPI_MCA_orte_bound_at_launch");
  if (mpirun_binds && allowed < fair && launched_rank() == 0)
    log::warn(concat("mpirun binds each rank to ", allowed, " of its ", fair,
                     " processors; with --bind-to none they are used"));
  return mpirun_binds || slurm_binds() ? std::min(allowed, fair) : std::max(1, allowed / here);
}

int tasks_on_node(const std::string& tasks_per_node, int node) {
  std::istringstream items(tasks_per_node);
  for (std::string item; std::getline(items, item, ',');) {
    int tasks = 0, nodes = 1;
    if (std::sscanf(item.c_str(), "%d(x%d)", &tasks, &nodes) < 1) return 0;
    if (node < nodes) return tasks;
    node -= nodes;
  }
  return 0;
}

}  // namespace strata::tools
