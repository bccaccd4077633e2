// A plan as tables for people.
#pragma once
#include "tools/plan_count.h"

namespace strata::tools {

void print_text(const Plan& plan);

}  // namespace strata::tools
