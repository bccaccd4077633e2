// Parameter counts from the model's own declarations: nothing is allocated. "Active" are the parameters that
// a token visits: all but the routed experts that were not chosen, num_experts_per_tok / n_routed_experts of
// them; embedding and head count in full, a tied matrix once.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_config.h"
#include "model/stage.h"
#include "tools/commands.h"
#include "train/config.h"

namespace strata::tools {
namespace {

constexpr const char* kGroups[] = {
    "embedding",      "head",   "attention", "dense feed-forward", "routed experts",
    "shared experts", "router", "norms",     "residual",           "multi-token prediction"};

struct Count {
  std::int64_t total = 0, active = 0;
  std::map<std::string, std::int64_t> groups;
};

std::string group_of(const std::string& name, const model::ModelConfig& c) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (c.has_mtp() && name.starts_with(concat("model.layers.", c.num_hidden_layers, ".")))
    return "multi-token prediction";
  if (has("_res.") || has("residual_sources")) return "residual";
  if (has("embed_tokens")) return "embedding";
  if (has("lm_head")) return "head";
  if (has("norm")) return "norms";
  if (has("self_attn")) return "attention";
  if (has(".mlp.gate.weight")) return "router";
  if (has("shared_experts")) return "shared experts";
  return has(".experts.") ? "routed experts" : "dense feed-forward";
}

Count count(const model::ModelConfig& c) {
  ParameterStore store;
  const model::Stage stage(c, {0, int(c.num_hidden_layers), true, true}, store);
  Count n;
  for (const char* group : kGroups) n.groups[group] = 0;
  for (const Parameter& p : store.parameters()) {
    const std::int64_t size = p.dims.numel();
    n.total += size;
    n.groups.at(group_of(p.slices.front().name, c)) += size;
    n.active += p.group == ReductionGroup::Expert ? size / c.n_routed_experts * c.num_experts_per_tok : size;
  }
  return n;
}

// The same model with each residual type, at that type's defaults and this model's number of blocks (8
// without one).
std::vector<std::pair<std::string, Count>> variants(const model::ModelConfig& config) {
  constexpr std::int64_t kBlocks = 8;
  std::vector<std::pair<std::string, Count>> all;
  for (const std::string_view name : enum_names(residual::Type())) {
    const auto type = residual::Type(all.size());
    model::ModelConfig c = config;
    if (type != config.residual.type) {
      c.residual = {.type = type};
      if (c.residual.has_blocks())
        c.residual.num_blocks = config.residual.has_blocks() ? config.residual.num_blocks : kBlocks;
    }
    all.emplace_back(name, count(c));
  }
  return all;
}

std::string millions(std::int64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fM", double(n) / 1e6);
  return text;
}

void print_text(const model::ModelConfig& c, const Count& n) {
  const auto line = [](const char* name, std::int64_t size, const std::string& remark) {
    std::printf("%-24s %10s %16lld%s\n", name, millions(size).c_str(), (long long)size, remark.c_str());
  };
  line("parameters", n.total, "");
  line("active per token", n.active,
       c.has_moe() ? concat("  ", c.num_experts_per_tok, " of ", c.n_routed_experts, " routed experts") : "");
  for (const char* group : kGroups)
    if (n.groups.at(group) > 0) line(concat("  ", group).c_str(), n.groups.at(group), "");
  std::printf("\n%-24s %10s %10s %16s\n", "the same model with", "parameters", "active", "residual alone");
  for (const auto& [name, v] : variants(c))
    std::printf("%-24s %10s %10s %16lld%s\n", name.c_str(), millions(v.total).c_str(),
                millions(v.active).c_str(), (long long)v.groups.at("residual"),
                name == name_of(c.residual.type) ? "  this one" : "");
}

void print_json(const model::ModelConfig& c, const Count& n) {
  nlohmann::ordered_json j{{"parameters", n.total}, {"active", n.active}};
  for (const char* group : kGroups) j["groups"][group] = n.groups.at(group);
  for (const auto& [name, v] : variants(c))
    j["variants"][name] = {
        {"parameters", v.total}, {"active", v.active}, {"residual", v.groups.at("residual")}};
  std::printf("%s\n", j.dump(2).c_str());
}

}  // namespace

int plan(const PlanArguments& a) {
  train::RunConfig config;
  load_config(config, a.config.file, a.config.overrides);
  const Count n = count(config.model);
  if (a.json)
    print_json(config.model, n);
  else
    print_text(config.model, n);
  return 0;
}

}  // namespace strata::tools
