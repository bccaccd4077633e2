#include "tools/plan_count.h"

#include "base/error.h"
#include "model/stage.h"
#include "train/variants.h"

namespace strata::tools {
namespace {

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

ParameterCount count_parameters(const model::ModelConfig& c) {
  ParameterStore store;
  const model::Stage stage(c, {0, int(c.num_hidden_layers), true, true}, store);
  ParameterCount n;
  for (const char* group : kParameterGroups) n.groups[group] = 0;
  for (const Parameter& p : store.parameters()) {
    const std::int64_t size = p.dims.numel();
    n.total += size;
    n.groups.at(group_of(p.slices.front().name, c)) += size;
    n.active += p.group == ReductionGroup::Expert ? size / c.n_routed_experts * c.num_experts_per_tok : size;
  }
  return n;
}

train::DryRun dry_run(const train::RunConfig& config, int ranks) {
  train::DryRun run = train::dry_run(config);
  if (ranks > 1) run.memory = fullest(train::plan_layout(config, ranks)).memory;
  return run;
}

std::vector<Plan::Variant> plan_variants(const train::RunConfig& config, int ranks) {
  std::vector<Plan::Variant> all;
  for (const std::string_view name : enum_names(residual::Type())) {
    const train::RunConfig c = train::with_residual(config, residual::Type(all.size()));
    all.push_back({std::string(name), count_parameters(c.model), dry_run(c, ranks)});
  }
  return all;
}

std::vector<std::pair<std::string, train::DryRun>> plan_policies(const train::RunConfig& config, int ranks) {
  std::vector<std::pair<std::string, train::DryRun>> all;
  for (const std::string_view name : enum_names(train::Granularity())) {
    train::RunConfig c = config;
    c.recompute.granularity = train::Granularity(all.size());
    all.emplace_back(name, dry_run(c, ranks));
  }
  return all;
}

}  // namespace

double Plan::tokens_per_step() const {
  return double(config.training.batch_size()) * double(config.training.seq_length);
}

double Plan::usual_estimate() const {
  const model::ModelConfig& c = config.model;
  const std::int64_t looked_up = c.tie_word_embeddings ? 0 : count.groups.at("embedding");
  const std::int64_t value_dim = c.attention == model::Attention::Mla ? c.v_head_dim : c.qk_head_dim();
  const double dims = double(c.num_attention_heads * (c.qk_head_dim() + value_dim));
  const double keys = 0.5 * double(config.training.seq_length + 1);
  const auto layers = double(c.num_hidden_layers + (c.has_mtp() ? 1 : 0));
  return 6 * double(count.active - looked_up) + 3 * layers * 2 * keys * dims;
}

Plan make_plan(const train::RunConfig& config, int ranks) {
  Plan plan{.config = config,
            .count = count_parameters(config.model),
            .run = train::dry_run(config),
            .policies = plan_policies(config, ranks),
            .variants = plan_variants(config, ranks),
            .layout = {}};
  if (ranks > 1) plan.layout = train::plan_layout(config, ranks);
  return plan;
}

}  // namespace strata::tools
