#include "tools/plan_json.h"

#include <nlohmann/json.hpp>

#include "tools/plan_layout.h"

namespace strata::tools {
namespace {

nlohmann::ordered_json memory_json(const train::Memory& m) {
  nlohmann::ordered_json j;
  const auto add = [&](const std::string& name, const device::MemoryUse& use) {
    j["peak"][name] = use.peak;
    j["between_steps"][name] = use.now;
  };
  add("total", m.total);
  for (int p = 0; p < device::kPurposes; ++p) add(std::string(device::name_of(device::Purpose(p))), m.use[p]);
  j["reserved"] = m.reserved;
  if (m.snapshot > 0) j["checkpoint_copies"] = m.snapshot;
  return j;
}

nlohmann::ordered_json flops_json(const train::Flops& f) {
  nlohmann::ordered_json j{{"total", f.total()}};
  for (std::size_t i = 0; i < train::kFlopKinds.size(); ++i)
    j[train::kFlopKindNames[i]] = f.*train::kFlopKinds[i];
  return j;
}

}  // namespace

nlohmann::ordered_json plan_json(const Plan& plan) {
  const train::DryRun& r = plan.run;
  nlohmann::ordered_json j{{"parameters", plan.count.total}, {"active", plan.count.active}};
  for (const char* group : kParameterGroups) j["groups"][group] = plan.count.groups.at(group);
  j["memory_bytes"] = memory_json(r.memory);
  j["kept_for_backward_bytes"] = r.kept;
  j["flops_per_token"] = {{"forward", flops_json(r.forward)},
                          {"backward", flops_json(r.backward)},
                          {"recompute", flops_json(r.recompute)},
                          {"usual_estimate", plan.usual_estimate()}};
  j["tokens_per_step"] = plan.tokens_per_step();
  if (plan.layout) j["layout"] = layout_json(*plan.layout);
  for (const auto& [name, policy] : plan.policies)
    j["recompute"][name] = {{"memory_bytes", memory_json(policy.memory)},
                            {"flops_per_token", policy.recompute.total()}};
  for (const Plan::Variant& v : plan.variants)
    j["variants"][v.name] = {{"parameters", v.count.total},
                             {"active", v.count.active},
                             {"residual", v.count.groups.at("residual")},
                             {"peak_memory_bytes", v.run.memory.total.peak},
                             {"flops_per_token", v.run.model_flops()}};
  return j;
}

}  // namespace strata::tools
