// What a run will need. Parameters, from the model's own declarations: "active" are those that a token
// visits, all but the routed experts that were not chosen, num_experts_per_tok / n_routed_experts of them;
// embedding and head count in full, a tied matrix once. Memory and operations, from a step on a device that
// does nothing (train/dry_run.h).
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_config.h"
#include "model/stage.h"
#include "tools/commands.h"
#include "tools/layouts.h"
#include "tools/plan_layout.h"
#include "train/dry_run.h"
#include "train/variants.h"

namespace strata::tools {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
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

// The usual estimate of forward and backward per token: 6 operations for an active parameter that is in a
// product (all but an embedding of its own), and 3 times causal attention: a query meets (T + 1) / 2 keys on
// average, with 2 operations for each dim of a key and of a value.
double estimate(const train::RunConfig& config, const Count& n) {
  const model::ModelConfig& c = config.model;
  const std::int64_t looked_up = c.tie_word_embeddings ? 0 : n.groups.at("embedding");
  const std::int64_t value_dim = c.attention == model::Attention::Mla ? c.v_head_dim : c.qk_head_dim();
  const double dims = double(c.num_attention_heads * (c.qk_head_dim() + value_dim));
  const double keys = 0.5 * double(config.training.seq_length + 1);
  const auto layers = double(c.num_hidden_layers + (c.has_mtp() ? 1 : 0));
  return 6 * double(n.active - looked_up) + 3 * layers * 2 * keys * dims;
}

struct Variant {
  std::string name;
  Count count;
  train::DryRun run;
};

// On several ranks the memory is that of the one that needs most; operations are always the whole model's.
train::DryRun dry_run(const train::RunConfig& config, int ranks) {
  train::DryRun run = train::dry_run(config);
  if (ranks > 1) run.memory = fullest(train::plan_layout(config, ranks)).memory;
  return run;
}

std::vector<Variant> variants(const train::RunConfig& config, int ranks) {
  std::vector<Variant> all;
  for (const std::string_view name : enum_names(residual::Type())) {
    const train::RunConfig c = train::with_residual(config, residual::Type(all.size()));
    all.push_back({std::string(name), count(c.model), dry_run(c, ranks)});
  }
  return all;
}

// The same run under each policy of recompute; the configured one with its own modules.
std::vector<std::pair<std::string, train::DryRun>> policies(const train::RunConfig& config, int ranks) {
  std::vector<std::pair<std::string, train::DryRun>> all;
  for (const std::string_view name : enum_names(train::Granularity())) {
    train::RunConfig c = config;
    c.recompute.granularity = train::Granularity(all.size());
    all.emplace_back(name, dry_run(c, ranks));
  }
  return all;
}

struct Plan {
  train::RunConfig config;
  Count count;
  train::DryRun run;
  std::vector<std::pair<std::string, train::DryRun>> policies;
  std::vector<Variant> variants;
  std::optional<train::LayoutPlan> layout;  // where there are several ranks

  double tokens_per_step() const {
    return double(config.training.batch_size()) * double(config.training.seq_length);
  }
};

std::string scaled(double n, double unit, const char* suffix) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f%s", n / unit, suffix);
  return text;
}
std::string millions(double n) { return n < 1e9 ? scaled(n, 1e6, "M") : scaled(n, 1e9, "B"); }
std::string operations(double n) {
  if (n >= 1e12) return scaled(n, 1e12, "T");
  if (n >= 1e9) return scaled(n, 1e9, "G");
  return n >= 1e6 ? scaled(n, 1e6, "M") : scaled(n, 1e3, "K");
}

void print_parameters(const model::ModelConfig& c, const Count& n) {
  const auto line = [](const char* name, std::int64_t size, const std::string& remark) {
    std::printf("%-24s %10s %16lld%s\n", name, millions(double(size)).c_str(), (long long)size,
                remark.c_str());
  };
  line("parameters", n.total, "");
  line("active per token", n.active,
       c.has_moe() ? concat("  ", c.num_experts_per_tok, " of ", c.n_routed_experts, " routed experts") : "");
  for (const char* group : kGroups)
    if (n.groups.at(group) > 0) line(concat("  ", group).c_str(), n.groups.at(group), "");
}

void print_memory(const train::RunConfig& config, const train::Memory& m) {
  const auto line = [](const std::string& name, const device::MemoryUse& use) {
    std::printf("%-24s %15s %15s\n", name.c_str(), size_text(use.peak).c_str(), size_text(use.now).c_str());
  };
  std::printf("\n%-24s %15s %15s\n", "memory", "peak", "between steps");
  line("in all", m.total);
  for (int p = 0; p < device::kPurposes; ++p)
    line(concat("  ", device::name_of(device::Purpose(p))), m.use[p]);
  std::printf("%-24s %15s  with sizes rounded to classes, and kept for the next step\n",
              "taken from the system", size_text(m.reserved).c_str());
  std::printf("%-24s %15s  beside that while a checkpoint is saved%s\n", "copies for a checkpoint",
              size_text(m.snapshot).c_str(), config.checkpoint.async_save ? ", training going on" : "");
}

void print_kept(const train::DryRun& r) {
  std::vector<std::pair<std::string, std::int64_t>> rows(r.kept.begin(), r.kept.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::int64_t all = 0;
  for (const auto& [op, bytes] : rows) all += bytes;
  std::printf("\n%-24s %15s\n%-24s %15s\n", "kept for backward", "a micro-batch", "in all",
              size_text(all).c_str());
  for (const auto& [op, bytes] : rows) std::printf("  %-22s %15s\n", op.c_str(), size_text(bytes).c_str());
}

void print_operations(const Plan& plan) {
  const train::DryRun& r = plan.run;
  const auto line = [](const std::string& name, double forward, double backward, double recompute) {
    std::printf("%-24s %10s %10s %10s %10s\n", name.c_str(), operations(forward).c_str(),
                operations(backward).c_str(), operations(recompute).c_str(),
                operations(forward + backward + recompute).c_str());
  };
  std::printf("\n%-24s %10s %10s %10s %10s\n", "operations per token", "forward", "backward", "recompute",
              "in all");
  line("in all", r.forward.total(), r.backward.total(), r.recompute.total());
  constexpr const char* kWhat[] = {"  products with weights", "  routed experts", "  causal attention",
                                   "  residual"};
  for (std::size_t i = 0; i < train::kFlopKinds.size(); ++i) {
    const auto kind = train::kFlopKinds[i];
    line(kWhat[i], r.forward.*kind, r.backward.*kind, r.recompute.*kind);
  }
  const double usual = estimate(plan.config, plan.count);
  std::printf(
      "%-24s %10s  6 x active parameters without an embedding of its own + 3 x causal attention:\n"
      "%-24s %10s  %.1f%% of forward and backward\n",
      "usual estimate", operations(usual).c_str(), "", "", 100 * usual / r.model_flops());
  const double step = plan.tokens_per_step();
  std::printf("%-24s %10s  %.0f tokens, forward and backward; %s with recompute\n", "operations per step",
              operations(step * r.model_flops()).c_str(), step,
              operations(step * (r.model_flops() + r.recompute.total())).c_str());
}

const char* whose_memory(const Plan& plan) {
  return plan.layout ? "  memory: of the rank that needs most" : "";
}

void print_policies(const Plan& plan) {
  const auto of = [](double part, double whole) { return scaled(100 * part, whole, "%"); };
  const train::DryRun& none = plan.policies.front().second;
  std::printf("\n%-24s %15s %15s %10s %22s%s\n", "recompute.granularity", "activations", "peak memory",
              "recompute", "of forward + backward", whose_memory(plan));
  for (const auto& [name, r] : plan.policies)
    std::printf("%-24s %15s %15s %10s %22s%s\n", name.c_str(),
                size_text(r.memory.use[int(device::Purpose::Activations)].peak).c_str(),
                size_text(r.memory.total.peak).c_str(), operations(r.recompute.total()).c_str(),
                of(r.recompute.total(), none.model_flops()).c_str(),
                name == name_of(plan.config.recompute.granularity) ? "  this one" : "");
}

void print_variants(const Plan& plan) {
  const double vanilla = plan.variants.front().run.model_flops();
  std::printf("\n%-24s %10s %10s %16s %15s %12s %11s%s\n", "the same model with", "parameters", "active",
              "residual alone", "peak memory", "operations", "to vanilla", whose_memory(plan));
  for (const Variant& v : plan.variants)
    std::printf("%-24s %10s %10s %16lld %15s %12s %11s%s\n", v.name.c_str(),
                millions(double(v.count.total)).c_str(), millions(double(v.count.active)).c_str(),
                (long long)v.count.groups.at("residual"), size_text(v.run.memory.total.peak).c_str(),
                operations(v.run.model_flops()).c_str(), scaled(v.run.model_flops(), vanilla, "").c_str(),
                v.name == name_of(plan.config.model.residual.type) ? "  this one" : "");
}

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

void print_json(const Plan& plan) {
  const train::DryRun& r = plan.run;
  nlohmann::ordered_json j{{"parameters", plan.count.total}, {"active", plan.count.active}};
  for (const char* group : kGroups) j["groups"][group] = plan.count.groups.at(group);
  j["memory_bytes"] = memory_json(r.memory);
  j["kept_for_backward_bytes"] = r.kept;
  j["flops_per_token"] = {{"forward", flops_json(r.forward)},
                          {"backward", flops_json(r.backward)},
                          {"recompute", flops_json(r.recompute)},
                          {"usual_estimate", estimate(plan.config, plan.count)}};
  j["tokens_per_step"] = plan.tokens_per_step();
  if (plan.layout) j["layout"] = layout_json(*plan.layout);
  for (const auto& [name, policy] : plan.policies)
    j["recompute"][name] = {{"memory_bytes", memory_json(policy.memory)},
                            {"flops_per_token", policy.recompute.total()}};
  for (const Variant& v : plan.variants)
    j["variants"][v.name] = {{"parameters", v.count.total},
                             {"active", v.count.active},
                             {"residual", v.count.groups.at("residual")},
                             {"peak_memory_bytes", v.run.memory.total.peak},
                             {"flops_per_token", v.run.model_flops()}};
  std::printf("%s\n", j.dump(2).c_str());
}

// Side by side, and nothing else.
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
  Plan plan;
  load_config(plan.config, a.config.file, a.config.overrides);
  if (!a.layouts.empty()) return plan_layouts(plan.config, a);
  plan.count = count(plan.config.model);
  const int ranks = world_of(plan.config, a.world, "plan");
  plan.run = train::dry_run(plan.config);
  plan.policies = policies(plan.config, ranks);
  plan.variants = variants(plan.config, ranks);
  if (ranks > 1) plan.layout = train::plan_layout(plan.config, ranks);
  if (a.json) {
    print_json(plan);
    return 0;
  }
  print_parameters(plan.config.model, plan.count);
  if (plan.layout) {
    print_layout(*plan.layout);
    std::printf(
        "\nWhat follows is of one rank that has the whole model, but for memory in the last tables.\n");
  }
  print_memory(plan.config, plan.run.memory);
  print_kept(plan.run);
  print_operations(plan);
  print_policies(plan);
  print_variants(plan);
  return 0;
}

}  // namespace strata::tools
