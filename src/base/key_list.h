// The keys that a config's list names, without touching its values.
#pragma once
#include <string>
#include <vector>

#include "base/fields.h"

namespace strata {

// Keys of `group` alone, or, deep, the dotted paths of everything in it. Entries of maps and lists are not
// keys.
std::vector<std::string> keys_of(const Group& group, bool deep);

}  // namespace strata
