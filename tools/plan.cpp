// The command that says what a run will need, or several layouts of it side by side.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_config.h"
#include "tools/commands.h"
#include "tools/layouts.h"
#include "tools/plan_json.h"
#include "tools/plan_layout.h"
#include "tools/plan_text.h"

namespace strata::tools {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

int plan_layouts(const train::RunConfig& config, const PlanArguments& a) {
  std::vector<std::string> names;
  std::vector<train::LayoutPlan> plans;
  for (const Layout& layout : parse_layouts(config, a.layouts, kMostRanks)) {
    names.push_back(layout.text);
    plans.push_back(train::plan_layout(layout.config, layout.ranks));
  }
  if (!a.json) {
    print_layouts(names, plans);
    return 0;
  }
  nlohmann::ordered_json j{{"layouts", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    j["layouts"].push_back({{"layout", names[i]}});
    j["layouts"].back().update(layout_json(plans[i]));
  }
  std::printf("%s\n", j.dump(2).c_str());
  return 0;
}

}  // namespace

int plan(const PlanArguments& a) {
  train::RunConfig config;
  load_config(config, a.config.file, a.config.overrides);
  if (!a.layouts.empty()) return plan_layouts(config, a);
  const Plan plan = make_plan(config, world_of(config, a.world, "plan"));
  if (a.json)
    std::printf("%s\n", plan_json(plan).dump(2).c_str());
  else
    print_text(plan);
  return 0;
}

}  // namespace strata::tools
