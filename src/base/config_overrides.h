// Command-line overrides onto a parsed config file.
#pragma once
#include <string>

#include "base/json_value.h"

namespace strata {

// Sets one "a.b=value" in `root`, making sections on the way. Throws InputError.
void apply_override(JsonValue& root, const std::string& assignment);

}  // namespace strata
