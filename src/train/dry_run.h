// A step of a run on a device that does nothing: what it would hold in memory and compute.
#pragma once
#include <array>
#include <map>
#include <string>

#include "train/rehearsal.h"

namespace strata::train {

// Floating-point operations by what they are for: products with weights, of them the routed experts' apart;
// causal attention's scores and sums; depth retrieval and stream mixing.
struct Flops {
  double products = 0, experts = 0, attention = 0, residual = 0;

  double total() const { return products + experts + attention + residual; }
};
constexpr std::array<double Flops::*, 4> kFlopKinds{&Flops::products, &Flops::experts, &Flops::attention,
                                                    &Flops::residual};
constexpr std::array<const char*, 4> kFlopKindNames{"products", "experts", "attention", "residual"};

struct DryRun {
  Memory memory;
  std::map<std::string, std::int64_t> kept;  // bytes of a micro-batch that wait for backward, by op
  // Per token. Backward is twice forward: a product for each input. Recompute is all that is computed beyond.
  Flops forward, backward, recompute;

  double model_flops() const { return forward.total() + backward.total(); }
};

// A training step and an evaluation in micro-batches of the configured size, as Trainer runs them. The peaks
// are those of the run, since the same code allocates the same sizes: none depends on data.
DryRun dry_run(const RunConfig& config);

// Forward and backward, nothing computed twice, per token.
double model_flops_per_token(const RunConfig& config);

}  // namespace strata::train
