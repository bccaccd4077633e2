// Numbers that must not mix have types.
#pragma once
#include <compare>

namespace strata {

template <class Tag>
struct Id {
  int value = 0;
  auto operator<=>(const Id&) const = default;
};

using LayerId = Id<struct LayerIdTag>;  // decoder layer, from 0

}  // namespace strata
