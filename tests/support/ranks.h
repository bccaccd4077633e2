// Ranks as threads, all in one group.
#pragma once
#include <functional>
#include <numeric>
#include <vector>

#include "comm/world.h"
#include "support/test_device.h"

namespace strata::test {

inline void on_ranks(int ranks, const std::function<void(comm::Communicator&)>& rank_main) {
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  comm::run_threads(ranks, [&](comm::World& world) { rank_main(*world.group("expert", all)); });
}

}  // namespace strata::test
