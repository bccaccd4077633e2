// The folders of checkpoints are looked through, set aside and removed by one rank; all read what it found.
#pragma once
#include <functional>
#include <optional>

#include "checkpoint/store.h"
#include "comm/communicator.h"

namespace strata::checkpoint {

// What `find` finds on the first rank, opened by all ranks; what it throws there, they all throw.
std::optional<Opened> open_on_all(comm::Communicator& ranks,
                                  const std::function<std::optional<Opened>()>& find);

}  // namespace strata::checkpoint
