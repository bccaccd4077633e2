#include "tools/launch.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/log.h"

namespace strata::tools {
namespace {

// The first of these variables that is set: Open MPI's, another PMI launcher's, or that of Slurm's srun.
int from_environment(const std::vector<const char*>& names, int otherwise) {
  for (const char* name : names)
    if (const char* text = std::getenv(name)) return std::atoi(text);
  return otherwise;
}
int launched_ranks() {
  return from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, 1);
}
bool launched() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE") || std::getenv("PMIX_RANK") ||
         launched_ranks() > 1;
}

// CPU threads of a rank, one of `here` on this host. Bound processors are this rank's own.
int threads_of_rank(int here) {
  if (std::getenv("OMP_NUM_THREADS")) return omp_get_max_threads();
  const int allowed = omp_get_num_procs(), fair = std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)) / here);
  const bool bound = std::getenv("OMPI_MCA_orte_bound_at_launch");
  if (bound && allowed < fair && launched_rank() == 0)
    log::warn(concat("mpirun binds each rank to ", allowed, " of its ", fair,
                     " processors; with --bind-to none they are used"));
  return bound ? std::min(allowed, fair) : std::max(1, allowed / here);
}

int launch_threads(const train::BackendSection& backend, const std::function<int(comm::World&)>& rank_main) {
  if (launched_ranks() > 1)
    throw InputError(concat("backend.comm threads: ", launched_ranks(),
                            " processes were started, and one makes all its ranks itself; start it alone, "
                            "or with backend.comm auto"));
  const int ranks = int(backend.threads_ranks);
  const int each = backend.threads > 0 ? int(backend.threads) : std::max(1, omp_get_max_threads() / ranks);
  std::vector<int> status(ranks, 0);
  comm::run_threads(ranks, [&](comm::World& world) {
    omp_set_num_threads(each);
    world.check_collectives(backend.check_collectives);
    status[world.rank()] = rank_main(world);
  });
  const auto failed = std::find_if(status.begin(), status.end(), [](int s) { return s != 0; });
  return failed == status.end() ? 0 : *failed;
}

// Ranks that wait give way: there may be more of them than processors.
std::unique_ptr<comm::World> start_mpi() {
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  std::unique_ptr<comm::World> world = comm::mpi_world();
  if (world->size() == 1 && launched_ranks() > 1)
    throw InputError(concat(launched_ranks(),
                            " processes were started, but not as ranks of one another: "
                            "use the mpirun of Open MPI, or srun --mpi=pmix"));
  return world;
}

}  // namespace

int launched_rank() {
  return from_environment({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
}

std::string speaker() {
  if (!launched() || launched_rank() == 0) return {};
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  return concat("rank ", launched_rank(), ": ");
}

int launch(const train::BackendSection& backend, const std::function<int(comm::World&)>& rank_main) {
  if (backend.comm == train::Comm::Threads) return launch_threads(backend, rank_main);
  const int here = from_environment({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1);
  omp_set_num_threads(backend.threads > 0 ? int(backend.threads) : threads_of_rank(here));
  const bool mpi = backend.comm == train::Comm::Mpi || launched();
  const std::unique_ptr<comm::World> world = mpi ? start_mpi() : comm::self_world();
  world->check_collectives(backend.check_collectives);
  return rank_main(*world);
}

}  // namespace strata::tools
