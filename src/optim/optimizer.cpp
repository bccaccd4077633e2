#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/jobs.h"

namespace strata::optim {
namespace {

Tensor zeros_like(device::Device& device, const Tensor& t) {
  Tensor z(device, t.dims(), t.dtype(), device::Purpose::OptimizerState);
  device.compute().run(kernels::Fill{.y = z, .value = 0});
  return z;
}

}  // namespace

double global_norm(device::Device& device, ParameterStore& store) {
  const device::PhaseScope phase(device.compute(), device::Phase::Optimizer);
  Tensor squares(device, {1}, DType::Float64, device::Purpose::Gradients);
  Write mode = Write::Overwrite;
  for (const Bucket& b : store.buckets()) {
    device.compute().run(kernels::SumSquares{.x = b.grad, .y = squares, .mode = mode});
    mode = Write::Accumulate;
  }
  return std::sqrt(to_host(device, squares, "gradient norm").at(0));
}

double clip_scale(double norm, double clip) { return clip == 0 ? 1.0 : std::min(1.0, clip / (norm + 1e-6)); }

Optimizer::Optimizer(const OptimizerSection& config, device::Device& device, ParameterStore& store)
    : config_(config), device_(device), store_(store) {
  for (const Bucket& b : store.buckets()) {
    Moments m;
    if (config.type == OptimizerType::AdamW || config.momentum != 0) m.first = zeros_like(device, b.master);
    if (config.type == OptimizerType::AdamW) m.second = zeros_like(device, b.master);
    moments_.push_back(m);
  }
}

std::map<std::string, Tensor> Optimizer::state() const {
  const bool adamw = config_.type == OptimizerType::AdamW;
  std::map<std::string, Tensor> state;
  for (std::size_t i = 0; i < moments_.size(); ++i)
    for (const Parameter* p : store_.buckets()[i].parameters)
      for (const NamedSlice& s : p->slices) {
        const std::int64_t at = p->bucket_offset + s.offset;
        const Moments& m = moments_[i];
        if (m.first.defined())
          state[(adamw ? "exp_avg." : "momentum_buffer.") + s.name] = m.first.at(at, s.dims);
        if (m.second.defined()) state["exp_avg_sq." + s.name] = m.second.at(at, s.dims);
      }
  return state;
}

void Optimizer::step(double lr, double grad_scale) {
  ++steps_;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const Bucket& b = store_.buckets()[i];
    const Tensor copy = b.value.dtype() == b.master.dtype() ? Tensor() : b.value;
    const double decay = b.decay == Decay::Yes ? config_.weight_decay : 0.0;
    if (config_.type == OptimizerType::AdamW)
      device_.compute().run(kernels::AdamW{.master = b.master,
                                           .m = moments_[i].first,
                                           .v = moments_[i].second,
                                           .grad = b.grad,
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
      device_.compute().run(kernels::Sgd{.master = b.master,
                                         .momentum_buffer = moments_[i].first,
                                         .grad = b.grad,
                                         .value = copy,
                                         .lr = lr,
                                         .momentum = config_.momentum,
                                         .weight_decay = decay,
                                         .grad_scale = grad_scale});
  }
}

}  // namespace strata::optim
