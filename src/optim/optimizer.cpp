#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "kernels/jobs.h"

namespace strata::optim {

double clip_scale(double norm, double clip) { return clip == 0 ? 1.0 : std::min(1.0, clip / (norm + 1e-6)); }

std::vector<std::string> moment_prefixes(const OptimizerSection& config) {
  if (config.type == OptimizerType::AdamW) return {"exp_avg.", "exp_avg_sq."};
  if (config.momentum != 0) return {"momentum_buffer."};
  return {};
}

Optimizer::Optimizer(const OptimizerSection& config, device::Device& device, ParameterStore& store,
                     const ReductionGroups& groups)
    : config_(config),
      device_(device),
      store_(store),
      groups_(groups),
      reduction_(device, store, groups, config.use_distributed_optimizer) {
  const std::vector<std::string> prefixes = moment_prefixes(config);
  for (const Bucket& b : store.buckets()) {
    Moments& m = moments_.emplace_back(Moments{groups.held(b, config.use_distributed_optimizer), {}});
    STRATA_CHECK(!b.has_copies() || b.master.numel() == m.part.count(), "the master of ", label(b),
                 " is not divided like its moments");
    for (const std::string& prefix : prefixes) {
      const Tensor held(device, {m.part.count()}, b.master.dtype(), device::Purpose::OptimizerState);
      device.compute().run(kernels::Fill{.y = held, .value = 0});
      m.tensors.push_back({prefix, held});
    }
  }
  gathers_.resize(moments_.size());
}

Optimizer::~Optimizer() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    wait_for_values();
    device_.compute().synchronize();
  } catch (const std::exception&) {  // mostly of another rank, which says so
  }
}

comm::Communicator* Optimizer::sharers(const Bucket& bucket) const {
  return config_.use_distributed_optimizer ? groups_.of(bucket) : nullptr;
}

void Optimizer::update(std::size_t bucket, double lr, double grad_scale) {
  const Bucket& b = store_.buckets()[bucket];
  const auto& [part, moments] = moments_[bucket];
  const auto mine = [&part = part](const Tensor& t) { return t.slice(part.begin, part.end); };
  const Tensor master = b.master.slice(part.begin - b.master_begin, part.end - b.master_begin);
  const Tensor copy = b.has_copies() ? mine(b.value) : Tensor();
  const double decay = b.decay == Decay::Yes ? config_.weight_decay : 0.0;
  if (config_.type == OptimizerType::AdamW)
    device_.compute().run(kernels::AdamW{.master = master,
                                         .m = moments[0].held,
                                         .v = moments[1].held,
                                         .grad = mine(b.grad),
                                         .value = copy,
                                         .lr = lr,
                                         .beta1 = config_.beta1,
                                         .beta2 = config_.beta2,
                                         .eps = config_.eps,
                                         .weight_decay = decay,
                                         .correction1 = 1 - std::pow(config_.beta1, double(steps_)),
                                         .correction2 = 1 - std::pow(config_.beta2, double(steps_)),
                                         .grad_scale = grad_scale});
  else
    device_.compute().run(kernels::Sgd{.master = master,
                                       .momentum_buffer = moments.empty() ? Tensor() : moments[0].held,
                                       .grad = mine(b.grad),
                                       .value = copy,
                                       .lr = lr,
                                       .momentum = config_.momentum,
                                       .weight_decay = decay,
                                       .grad_scale = grad_scale});
}

void Optimizer::step(double lr, double grad_scale) {
  ++steps_;
  wait_for_values();
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    update(i, lr, grad_scale);
    const Bucket& b = store_.buckets()[i];
    const Part part = moments_[i].part;
    if (comm::Communicator* group = sharers(b))
      gathers_[i] = group->all_gather(device_.compute(), b.value.slice(part.begin, part.end), b.value,
                                      kWeightsOf + label(b));
  }
}

void Optimizer::wait_for_values(int layer) {
  for (std::size_t i = 0; i < gathers_.size(); ++i)
    if (gathers_[i] && store_.buckets()[i].layer == layer) {
      gathers_[i].wait(device_.compute());
      gathers_[i] = {};
    }
}

void Optimizer::wait_for_values() {
  for (comm::Pending& gather : gathers_) {
    if (gather) gather.wait(device_.compute());
    gather = {};
  }
}

}  // namespace strata::optim
