#include "tools/plan_text.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "tools/plan_layout.h"

namespace strata::tools {
namespace {

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

void print_parameters(const model::ModelConfig& c, const ParameterCount& n) {
  const auto line = [](const char* name, std::int64_t size, const std::string& remark) {
    std::printf("%-24s %10s %16lld%s\n", name, millions(double(size)).c_str(), (long long)size,
                remark.c_str());
  };
  line("parameters", n.total, "");
  line("active per token", n.active,
       c.has_moe() ? concat("  ", c.num_experts_per_tok, " of ", c.n_routed_experts, " routed experts") : "");
  for (const char* group : kParameterGroups)
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
  const double usual = plan.usual_estimate();
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
  for (const Plan::Variant& v : plan.variants)
    std::printf("%-24s %10s %10s %16lld %15s %12s %11s%s\n", v.name.c_str(),
                millions(double(v.count.total)).c_str(), millions(double(v.count.active)).c_str(),
                (long long)v.count.groups.at("residual"), size_text(v.run.memory.total.peak).c_str(),
                operations(v.run.model_flops()).c_str(), scaled(v.run.model_flops(), vanilla, "").c_str(),
                v.name == name_of(plan.config.model.residual.type) ? "  this one" : "");
}

}  // namespace

void print_text(const Plan& plan) {
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
}

}  // namespace strata::tools
