// Command-line overrides onto a parsed config file.
#pragma once
#include <string>

#include "base/json_value.h"

namespace strata {

// Sets one "a.b=value" in `root`, making sections on the way; "a[1].b" is a key of element 1 of a list, which
// must be there. Throws InputError.
void apply_override(JsonValue& root, const std::string& assignment);

}  // namespace strata
