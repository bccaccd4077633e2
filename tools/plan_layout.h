// What `strata plan` says of a run on several ranks.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/layout_plan.h"

namespace strata::tools {

// "12.34 MB".
std::string size_text(std::int64_t bytes);

void print_layout(const train::LayoutPlan& plan);
// One line each.
void print_layouts(const std::vector<std::string>& names, const std::vector<train::LayoutPlan>& plans);
nlohmann::ordered_json traffic_json(const train::Traffic& sent);
nlohmann::ordered_json layout_json(const train::LayoutPlan& plan);

}  // namespace strata::tools
