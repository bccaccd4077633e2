// The checks of tests/comm over MPI: mpirun -n N strata_test_mpi. Exit status 0 if all hold.
#include <cstdio>

#include "support/comm_checks.h"
#include "support/comm_rank.h"

using namespace strata;

namespace {

void run_all(comm::World& world) {
  const device::DeviceOptions at_once{.fill_nan = true};
  const device::DeviceOptions queued{
      .mode = device::StreamMode::Queued, .fill_nan = true, .seed = std::uint64_t(world.rank())};
  for (const test::CommCheck& check : test::comm_checks()) {
    check.run(world, at_once);
    check.run(world, queued);
    if (world.rank() == 0) std::printf("%s holds on %d ranks\n", check.name, world.size());
  }
}

// Rank 1 fails while all wait for it and messages to it are under way; its sentence must be seen, all must
// end.
void fail_one(comm::World& world) {
  test::Rank r(world, {});
  const Tensor x = r.empty<float>({1000000}), y = r.empty<float>({10});
  comm::Pending sent = r.all->send(r.stream(), x, r.ahead(), 0);
  comm::Pending received = r.all->receive(r.stream(), y, r.behind(), 1);
  r.all->barrier();
  if (r.rank() == 1) throw Error("this rank fails");
  received.wait(r.stream());
}

void tell(const comm::World& world, const std::exception& e) {
  std::fprintf(stderr, "rank %d: %s\n", world.rank(), e.what());
}

}  // namespace

// strata_test_mpi [fail | leave]: the checks, or a failing rank that aborts the world or just leaves it.
int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  try {
    const auto world = comm::mpi_world();
    try {
      mode.empty() ? run_all(*world) : fail_one(*world);
    } catch (const std::exception& e) {
      tell(*world, e);
      if (mode == "leave") throw;
      world->abort(e.what());
    }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ends with: %s\n", e.what());
    return 1;
  }
}
