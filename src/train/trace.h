// One batch through the model with everything visible: losses, logits, gradients, depth weights, gates,
// trained weights.
#pragma once
#include <functional>
#include <string>

#include "checkpoint/safetensors.h"
#include "train/gather.h"
#include "train/trainer.h"

namespace strata::train {

enum class Seen { Everything, NoTokens };  // without what there is for each token: logits, weights of depth
// One forward and backward, then `steps` optimiser steps on the same batch (train.*, trained.*). Every rank
// calls it and gets everything.
TraceTensors trace(Trainer& trainer, const RunConfig& config, const HostBatch& batch, std::int64_t steps,
                   Seen seen = Seen::Everything);

struct Difference {
  std::string name;
  double value = 0;  // NaN where either side is not finite
  double tolerance = 0;
  std::string missing;  // why it cannot be compared; empty otherwise
  bool within() const { return missing.empty() && value <= tolerance; }
};
// ||a - ref|| / max(||ref||, floor) for every tensor of the reference, worst relative to its tolerance first.
// floor is 1e-3 times the norm of all reference gradients together for grad.*, else 0; a reference of zeros:
// the absolute norm.
std::vector<Difference> compare(const TraceTensors& ours, const TraceTensors& reference,
                                const std::function<double(const std::string&)>& tolerance);
// train.* and trained.* of the reference only with steps.
std::vector<Difference> compare(const TraceTensors& ours, const checkpoint::SafetensorsFile& reference,
                                const std::function<double(const std::string&)>& tolerance, bool with_steps);
// The tolerances of the reference numbers per tensor kind and compute type.
std::function<double(const std::string&)> reference_tolerance(DType compute);

}  // namespace strata::train
