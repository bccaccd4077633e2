// What a run will need, gathered before anything is allocated. Parameters, from the model's own declarations;
// memory and operations, from a step on a device that does nothing (train/dry_run.h).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/dry_run.h"
#include "train/layout_plan.h"

namespace strata::tools {

constexpr std::array<const char*, 10> kParameterGroups{
    "embedding",      "head",   "attention", "dense feed-forward", "routed experts",
    "shared experts", "router", "norms",     "residual",           "multi-token prediction"};

struct ParameterCount {
  std::int64_t total = 0;
  // That a token visits: all but the routed experts that were not chosen, num_experts_per_tok /
  // n_routed_experts of them; embedding and head count in full, a tied matrix once.
  std::int64_t active = 0;
  std::map<std::string, std::int64_t> groups;  // of kParameterGroups
};

struct Plan {
  // The same run with other residual connections.
  struct Variant {
    std::string name;
    ParameterCount count;
    train::DryRun run;
  };

  train::RunConfig config;
  ParameterCount count;
  train::DryRun run;  // of one rank that has the whole model
  // The same run under each policy of recompute; the configured one with its own modules. On several ranks
  // the memory of these and of the variants is that of the rank that needs most; operations are always the
  // whole model's.
  std::vector<std::pair<std::string, train::DryRun>> policies;
  std::vector<Variant> variants;
  std::optional<train::LayoutPlan> layout;  // where there are several ranks

  double tokens_per_step() const;
  // The usual estimate of operations per token, forward and backward: 6 for an active parameter that is in a
  // product (all but an embedding of its own), and 3 times causal attention: a query meets (T + 1) / 2 keys
  // on average, with 2 operations for each dim of a key and of a value.
  double usual_estimate() const;
};

Plan make_plan(const train::RunConfig& config, int ranks);

}  // namespace strata::tools
