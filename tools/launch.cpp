#include "tools/launch.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "tools/launcher.h"
#include "train/layout.h"
#include "train/same_on_all.h"

namespace strata::tools {
namespace {

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

comm::Mesh mesh_of(const train::RunConfig& config, comm::World& world, const Shape& shape) {
  world.check_collectives(config.backend.check_collectives);
  return {world, shape ? shape(world.size()) : train::mesh_shape(config, world.size())};
}

int run_threads(const train::RunConfig& config, const RankMain& rank_main, const Shape& shape) {
  const train::BackendSection& backend = config.backend;
  const int ranks = int(backend.threads_ranks);
  const int each = backend.threads > 0 ? int(backend.threads) : std::max(1, omp_get_max_threads() / ranks);
  std::vector<int> status(ranks, 0);
  comm::run_threads(ranks, [&](comm::World& world) {
    omp_set_num_threads(each);
    status[world.rank()] = rank_main(mesh_of(config, world, shape));
  });
  const auto failed = std::find_if(status.begin(), status.end(), [](int s) { return s != 0; });
  return failed == status.end() ? 0 : *failed;
}

RankMain watched(const train::RunConfig& config, const RankMain& rank_main) {
  return [&](const comm::Mesh& mesh) {
    const train::Watchdog watchdog(mesh, watching(config));
    return rank_main(mesh);
  };
}

// Ranks that wait give way: there may be more of them than processors.
std::unique_ptr<comm::World> start_mpi(const std::string& facts) {
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  std::unique_ptr<comm::World> world = comm::mpi_world();
  if (world->size() == 1 && launched_ranks() > 1)
    throw InputError(concat(launched_ranks(),
                            " processes were started, but not as ranks of one another: "
                            "use the mpirun of Open MPI, or srun --mpi=pmix"));
  std::vector<int> all(world->size());
  std::iota(all.begin(), all.end(), 0);
  const auto start = world->group("start", all);
  start->barrier("the start of all ranks");
  train::same_on_all(*start, facts);
  return world;
}

}  // namespace

train::Watchdog::Options watching(const train::RunConfig& config) {
  return {.seconds = config.resilience.watchdog_seconds, .grace = 1, .say = log::error, .last = end_process};
}

int launch(const std::string& command, const train::RunConfig& config, const RankMain& rank_main,
           const Shape& shape) {
  const train::BackendSection& backend = config.backend;
  if (backend.comm == train::Comm::Threads) {
    if (launched_ranks() > 1)
      throw InputError(concat("backend.comm threads: ", launched_ranks(),
                              " processes were started, and one makes all its ranks itself; start it alone, "
                              "or with backend.comm auto"));
    return run_threads(config, rank_main, shape);
  }
  omp_set_num_threads(backend.threads > 0 ? int(backend.threads) : threads_of_rank());
  const bool mpi = backend.comm == train::Comm::Mpi || launched();
  std::optional<Deadline> deadline(std::in_place,
                                   mpi ? train::Watchdog::kStart * config.resilience.watchdog_seconds : 0);
  const std::unique_ptr<comm::World> world =
      mpi ? start_mpi(train::started_with(command, config)) : comm::self_world();
  const comm::Mesh mesh = mesh_of(config, *world, shape);
  deadline.reset();
  return rank_main(mesh);
}

int launch_watched(const std::string& command, const train::RunConfig& config, const RankMain& rank_main,
                   const Shape& shape) {
  return launch(command, config, watched(config, rank_main), shape);
}

int launch_threads(const train::RunConfig& config, const RankMain& rank_main) {
  return run_threads(config, watched(config, rank_main), {});
}

}  // namespace strata::tools
