#include "tools/launch.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/log.h"
#include "train/layout.h"

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

// Ranks on this host.
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

// CPU threads of a rank, one of `here` on this host.
int threads_of_rank(int here) {
  if (std::getenv("OMP_NUM_THREADS")) return omp_get_max_threads();
  const int allowed = omp_get_num_procs(), fair = std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)) / here);
  const bool mpirun_binds = std::getenv("OMPI_MCA_orte_bound_at_launch");
  if (mpirun_binds && allowed < fair && launched_rank() == 0)
    log::warn(concat("mpirun binds each rank to ", allowed, " of its ", fair,
                     " processors; with --bind-to none they are used"));
  return mpirun_binds || slurm_binds() ? std::min(allowed, fair) : std::max(1, allowed / here);
}

void end_process(const std::string& why) {
  std::fprintf(stderr, "strata: %s\n", why.c_str());
  std::_Exit(1);
}

// Ends this process with a sentence, unless it is destroyed in time: until all ranks have met in all their
// groups, MPI waits for ever, and no watchdog sees it.
class Deadline {
 public:
  explicit Deadline(double seconds) {
    if (seconds > 0) thread_ = std::jthread([=](std::stop_token stop) { wait(stop, seconds); });
  }

 private:
  static void wait(const std::stop_token& stop, double seconds) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    wake.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
    if (stop.stop_requested()) return;
    log::error(concat("rank ", launched_rank(), " of ", launched_ranks(), " has waited ", seconds, " s (",
                      train::Watchdog::kStart,
                      " x resilience.watchdog_seconds) for all ranks to start: one that does not say this "
                      "has not started, hangs, or cannot be reached"));
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the others say so, too
    std::_Exit(1);
  }

  std::jthread thread_;
};

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
  std::vector<int> all(world->size());
  std::iota(all.begin(), all.end(), 0);
  world->group("start", all)->barrier("the start of all ranks");
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

train::Watchdog::Options watching(const train::RunConfig& config) {
  return {.seconds = config.resilience.watchdog_seconds, .grace = 1, .say = log::error, .last = end_process};
}

int launch(const train::RunConfig& config, const RankMain& rank_main, const Shape& shape) {
  const train::BackendSection& backend = config.backend;
  const auto mesh_of = [&](comm::World& world) {
    world.check_collectives(backend.check_collectives);
    return comm::Mesh(world, shape ? shape(world.size()) : train::mesh_shape(config, world.size()));
  };
  if (backend.comm == train::Comm::Threads)
    return launch_threads(backend, [&](comm::World& world) { return rank_main(mesh_of(world)); });
  omp_set_num_threads(backend.threads > 0 ? int(backend.threads) : threads_of_rank(ranks_here()));
  const bool mpi = backend.comm == train::Comm::Mpi || launched();
  std::optional<Deadline> deadline(std::in_place,
                                   mpi ? train::Watchdog::kStart * config.resilience.watchdog_seconds : 0);
  const std::unique_ptr<comm::World> world = mpi ? start_mpi() : comm::self_world();
  const comm::Mesh mesh = mesh_of(*world);
  deadline.reset();
  return rank_main(mesh);
}

int launch_watched(const train::RunConfig& config, const RankMain& rank_main, const Shape& shape) {
  const auto watched = [&](const comm::Mesh& mesh) {
    const train::Watchdog watchdog(mesh, watching(config));
    return rank_main(mesh);
  };
  return launch(config, watched, shape);
}

}  // namespace strata::tools
