// Mixture of experts with shared experts, DeepSeekMoE (arXiv 2401.06066), and loss-free balancing by a router
// bias (DeepSeek-V3, arXiv 2412.19437, section 2.1.2). No token is dropped.
#pragma once
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "kernels/jobs.h"
#include "nn/context.h"
#include "nn/mlp.h"
#include "ops/dispatch.h"

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
  // `prefix` such as "model.layers.3.mlp". The experts of this rank are stacked [E/ranks,..]; their published
  // names, numbered over all ranks, are slices.
  // ranks: over which experts are spread, in equal runs by rank; null: they are all here. All ranks call
  // forward, and run its backward, in the same order, also without tokens.
  Moe(ParameterStore& store, const std::string& prefix, const MoeConfig& config,
      comm::Communicator* ranks = nullptr);

  void allocate(device::Device& device);  // after the store is
  MoeOutput forward(Tape& tape, const Var& x, const Context& context) const;

  // Tokens of this rank per expert since the last update, [E] int64, over all micro-batches.
  const Tensor& load() const { return load_; }
  // Moves the bias towards even load and counts anew. Softmax routers have no bias: their load is just reset.
  void update_bias(double speed);
  // On a dry device, where nobody chooses, tokens are spread evenly over so many experts, the first; 0: over
  // all.
  void suppose_experts(std::int64_t count) { dry_experts_ = count; }

 private:
  struct Both {
    Var experts, shared;  // [T*K,D] sorted by expert; [T,D], slot -1 without shared experts
  };
  Var experts(Tape& tape, const Var& rows, const Tensor& offsets) const;
  Both here(Tape& tape, const Var& x, const Var& rows, const ops::RoutingPlan& plan) const;
  Both spread(Tape& tape, const Var& x, const Var& rows, const ops::DispatchPlan& plan,
              const std::string& where) const;
  ops::DispatchPlan dispatch_plan(Tape& tape, const ops::RoutingPlan& plan, const Context& context,
                                  const std::string& where) const;

  MoeConfig config_;
  std::string name_;
  comm::Communicator* ranks_;  // null: all experts are here
  Parameter *gate_, *gate_up_, *down_;
  Buffer* bias_ = nullptr;
  std::int64_t dry_experts_ = 0;
  std::unique_ptr<Mlp> shared_;
  device::Device* device_ = nullptr;
  Tensor load_;
};

}  // namespace strata::nn
