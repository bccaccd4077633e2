// A plan as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "tools/plan_count.h"

namespace strata::tools {

nlohmann::ordered_json plan_json(const Plan& plan);

}  // namespace strata::tools
