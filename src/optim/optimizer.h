// AdamW and SGD over flat parameter buckets, with clipping by one global norm over every parameter.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autograd/parameter.h"
#include "optim/config.h"

namespace strata::optim {

// sqrt of the sum of squares of every gradient, each parameter counted once; summed in float64.
double global_norm(device::Device& device, ParameterStore& store);

// min(1, clip / (norm + 1e-6)); 1 if clip is 0.
double clip_scale(double norm, double clip);

class Optimizer {
 public:
  // Moments are zero, in the accumulator type.
  Optimizer(const OptimizerSection& config, device::Device& device, ParameterStore& store);

  // One update with the gradients in the store times `grad_scale`. Counts the steps itself (bias correction).
  void step(double lr, double grad_scale);
  std::int64_t steps() const { return steps_; }

  // What a checkpoint keeps besides the weights: each moment by name, "exp_avg.WEIGHT" and
  // "exp_avg_sq.WEIGHT" (AdamW) or "momentum_buffer.WEIGHT" (SGD with momentum), shaped like the weight.
  std::map<std::string, Tensor> state() const;
  // The count that goes with moments from a checkpoint.
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  struct Moments {
    Tensor first, second;  // AdamW: m and v; SGD: momentum buffer, or undefined
  };
  OptimizerSection config_;
  device::Device& device_;
  ParameterStore& store_;
  std::vector<Moments> moments_;  // one per bucket
  std::int64_t steps_ = 0;
};

}  // namespace strata::optim
