// Mixture of experts with shared experts, DeepSeekMoE (arXiv 2401.06066), and loss-free balancing by a router
// bias (DeepSeek-V3, arXiv 2412.19437, section 2.1.2). No token is dropped.
#pragma once
#include <memory>
#include <string>

#include "kernels/jobs.h"
#include "nn/context.h"
#include "nn/mlp.h"

namespace strata::nn {

struct MoeConfig {
  std::int64_t hidden_size = 0, expert_width = 0, experts = 0, shared_experts = 0;
  kernels::RouterRule rule;  // coefficients as configured, not yet divided
  double init_std = 0.006;
};

struct MoeOutput {
  Var y;    // [T,D]
  Var aux;  // [1] Acc: balance losses of this layer
};

class Moe {
 public:
  // `prefix` such as "model.layers.3.mlp". Experts are stacked [E,..]; their published names are slices.
  Moe(ParameterStore& store, const std::string& prefix, const MoeConfig& config);

  void allocate(device::Device& device);  // after the store is
  MoeOutput forward(Tape& tape, const Var& x, const Context& context) const;

  // Tokens per expert since the last update, [E] int64, over all micro-batches.
  const Tensor& load() const { return load_; }
  // Moves the bias towards even load and counts anew. Softmax routers have no bias: their load is just reset.
  void update_bias(double speed);

 private:
  MoeConfig config_;
  Parameter *gate_, *gate_up_, *down_;
  Buffer* bias_ = nullptr;
  std::unique_ptr<Mlp> shared_;
  device::Device* device_ = nullptr;
  Tensor load_;
};

}  // namespace strata::nn
