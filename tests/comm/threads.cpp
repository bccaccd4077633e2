// The checks on threads and on a process alone, jobs at once and queued in random order.
#include <gtest/gtest.h>

#include "support/comm_checks.h"

namespace strata::test {

static void PrintTo(const CommCheck& check, std::ostream* out) { *out << check.name; }

namespace {

class OnThreads : public testing::TestWithParam<CommCheck> {};

// Queued without the guard: messages touch memory outside jobs.
device::DeviceOptions queued(int seed) {
  return {.mode = device::StreamMode::Queued, .fill_nan = true, .seed = std::uint64_t(seed)};
}

TEST_P(OnThreads, AnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    EXPECT_NO_THROW(
        comm::run_threads(ranks, [](comm::World& world) { GetParam().run(world, {.fill_nan = true}); }));
  }
}

TEST_P(OnThreads, QueuedStreams) {
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    EXPECT_NO_THROW(comm::run_threads(
        ranks, [](comm::World& world) { GetParam().run(world, queued(world.rank() + 1)); }));
  }
}

TEST_P(OnThreads, ProcessAlone) {
  const auto world = comm::self_world();
  EXPECT_NO_THROW(GetParam().run(*world, {}));
  EXPECT_NO_THROW(GetParam().run(*world, queued(5)));
}

INSTANTIATE_TEST_SUITE_P(Checks, OnThreads, testing::ValuesIn(comm_checks()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::test
