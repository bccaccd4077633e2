#include "tools/launch.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace strata::tools {
namespace {

// Whether a launcher (Open MPI's or another PMI one) started this process as one of several ranks.
bool started_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

// What is wrong with the input is wrong on every rank: the first one says so, and its end is the others'.
void let_the_first_speak() { std::this_thread::sleep_for(std::chrono::milliseconds(500)); }

std::string of_rank(const comm::World& world, const std::exception& e) {
  return concat("rank ", world.rank(), ": ", e.what());
}

}  // namespace

int launch(const train::BackendSection& backend, const std::function<int(comm::World&)>& rank_main) {
  const bool threads = backend.comm == train::Comm::Threads;
  const int here = threads ? int(backend.threads_ranks) : 1;
  const int each = backend.threads > 0 ? int(backend.threads) : std::max(1, omp_get_max_threads() / here);
  if (threads) {
    std::vector<int> status(here, 0);
    comm::run_threads(here, [&](comm::World& world) {
      omp_set_num_threads(each);
      status[world.rank()] = rank_main(world);
    });
    const auto failed = std::find_if(status.begin(), status.end(), [](int s) { return s != 0; });
    return failed == status.end() ? 0 : *failed;
  }
  if (backend.threads > 0) omp_set_num_threads(each);
  const bool mpi = backend.comm == train::Comm::Mpi || started_by_mpirun();
  const std::unique_ptr<comm::World> world = mpi ? comm::mpi_world() : comm::self_world();
  try {
    return rank_main(*world);
  } catch (const InputError& e) {
    if (world->rank() == 0) throw;
    let_the_first_speak();
    throw InputError(of_rank(*world, e));
  } catch (const std::exception& e) {
    if (world->rank() == 0) throw;
    let_the_first_speak();
    throw Error(of_rank(*world, e));
  }
}

}  // namespace strata::tools
