// What one rank does for all: looking into folders, locking, removing.
#pragma once
#include <functional>
#include <string>

#include "comm/communicator.h"

namespace strata::comm {

// The result of `action` on the first member, for every member. What it throws there is thrown everywhere, an
// InputError as such. Every member calls this.
std::string on_first(Communicator& members, const std::function<std::string()>& action);

}  // namespace strata::comm
