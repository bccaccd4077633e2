// A world of which a few ranks run, each on a dry device: what they exchange is counted and never sent.
#pragma once
#include <memory>
#include <vector>

#include "comm/world.h"

namespace strata::comm {

// `present`: the ranks, of a world of `size`, that the ranks of `here` stand for, in order. Texts are
// gathered in groups whose members are all present; in others it is an Error. `here` outlives it.
std::unique_ptr<World> partial_world(World& here, std::vector<int> present, int size);

}  // namespace strata::comm
