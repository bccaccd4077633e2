// What every back end must do, as functions that all ranks of a world call. The tests here run them on
// threads, tests/mpi on MPI. A violation is an Error.
#pragma once
#include <vector>

#include "comm/world.h"

namespace strata::test {

struct CommCheck {
  const char* name;
  void (*run)(comm::World& world, const device::DeviceOptions& options);
};
const std::vector<CommCheck>& comm_checks();

// Of collectives and of messages: comm_checks() is both.
std::vector<CommCheck> collective_checks();
std::vector<CommCheck> message_checks();

}  // namespace strata::test
