#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/jobs.h"

namespace strata::optim {
namespace {

// The gathering of `t`, of which every member of the group has its part.
comm::Pending gather_parts(device::Stream& stream, comm::Communicator& group, const Tensor& t, Part part,
                           const std::string& what) {
  return group.all_gather(stream, t.slice(part.begin, part.end), t, what);
}

void wait_all(device::Stream& stream, std::vector<comm::Pending>& pending) {
  for (comm::Pending& p : pending) p.wait(stream);
}

}  // namespace

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
    for (const std::string& prefix : prefixes) {
      const Tensor held(device, {m.part.count()}, b.master.dtype(), device::Purpose::OptimizerState);
      device.compute().run(kernels::Fill{.y = held, .value = 0});
      m.tensors.push_back({prefix, held});
    }
  }
}

comm::Communicator* Optimizer::sharers(const Bucket& bucket) const {
  return config_.use_distributed_optimizer ? groups_.of(bucket) : nullptr;
}

void Optimizer::update(std::size_t bucket, double lr, double grad_scale) {
  const Bucket& b = store_.buckets()[bucket];
  const auto& [part, moments] = moments_[bucket];
  const auto mine = [&part = part](const Tensor& t) { return t.slice(part.begin, part.end); };
  const Tensor copy = b.value.dtype() == b.master.dtype() ? Tensor() : mine(b.value);
  const double decay = b.decay == Decay::Yes ? config_.weight_decay : 0.0;
  if (config_.type == OptimizerType::AdamW)
    device_.compute().run(kernels::AdamW{.master = mine(b.master),
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
    device_.compute().run(kernels::Sgd{.master = mine(b.master),
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
  std::vector<comm::Pending> pending;  // a bucket is gathered while the next ones are updated
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    update(i, lr, grad_scale);
    const Bucket& b = store_.buckets()[i];
    if (comm::Communicator* group = sharers(b))
      pending.push_back(
          gather_parts(device_.compute(), *group, b.value, moments_[i].part, "weights of " + label(b)));
  }
  wait_all(device_.compute(), pending);
}

void Optimizer::gather_masters() {
  std::vector<comm::Pending> pending;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const Bucket& b = store_.buckets()[i];
    comm::Communicator* group = sharers(b);
    if (group && b.master.storage() != b.value.storage())
      pending.push_back(
          gather_parts(device_.compute(), *group, b.master, moments_[i].part, "masters of " + label(b)));
  }
  wait_all(device_.compute(), pending);
}

}  // namespace strata::optim
