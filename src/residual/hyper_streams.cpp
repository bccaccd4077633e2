#include "residual/hyper_streams.h"

#include "ops/depth_merge.h"

namespace strata::residual {
namespace {

Parameter& add_full(ParameterStore& store, const std::string& name, Dims dims, Init init,
                    Decay decay = Decay::No) {
  return store.add(
      {.name = name, .dims = dims, .init = std::move(init), .decay = decay, .precision = Precision::Full});
}

// -3, and +3 where `chosen`.
Init biased(std::function<bool(std::int64_t)> chosen) {
  return {0, [chosen = std::move(chosen)](std::int64_t i) { return chosen(i) ? 3.0 : -3.0; }};
}

}  // namespace

HyperStreams::HyperStreams(const Config& config, const Shape& shape, ParameterStore& store)
    : config_(config) {
  for (int l = 1; l <= shape.sublayers; ++l)
    slots_.push_back(shape.reads(l) ? add_slot({l}, shape, store) : ops::HyperParameters());
  if (config.readout != Readout::HeadMix || !shape.reads(shape.sublayers + 1)) return;
  const std::int64_t n = config.streams;
  phi_ = &add_full(store, "model.out_res.phi.weight", {n, n * shape.hidden_size},
                   Init::normal(shape.initializer_range), Decay::Yes);
  alpha_ = &add_full(store, "model.out_res.alpha", {1}, Init::constant(0.01));
  bias_ = &add_full(store, "model.out_res.bias", {n}, {});
}

ops::HyperParameters HyperStreams::add_slot(Slot slot, const Shape& shape, ParameterStore& store) const {
  const std::int64_t n = config_.streams, favoured = slot.number % n;
  const std::string t = parameter_prefix(slot);
  const auto add = [&](const char* name, Dims dims, Init init) {
    return &add_full(store, t + name, dims, std::move(init));
  };
  ops::HyperParameters p;
  p.phi = &add_full(store, t + ".phi.weight", {n * n + 2 * n, n * shape.hidden_size},
                    Init::normal(shape.initializer_range), Decay::Yes);
  p.alpha_pre = add(".alpha_pre", {1}, Init::constant(0.01));
  p.alpha_post = add(".alpha_post", {1}, Init::constant(0.01));
  p.alpha_res = add(".alpha_res", {1}, Init::constant(0.01));
  p.bias_pre = add(".bias_pre", {n}, biased([favoured](std::int64_t i) { return i == favoured; }));
  p.bias_post = add(".bias_post", {n}, {});
  p.bias_res = add(".bias_res", {n, n}, biased([n](std::int64_t i) { return i / n == i % n; }));
  return p;
}

Var HyperStreams::coefficients(Tape& tape, const Var& x, Slot slot) const {
  return ops::hyper_coef(tape, x, slots_.at(slot.number - 1), config_.sinkhorn_iters, config_.key_norm_eps);
}

Var HyperStreams::read_out(Tape& tape, const Var& x) const {
  if (config_.readout == Readout::Sum) return ops::sum_streams(tape, x, 1);
  if (config_.readout == Readout::Mean) return ops::sum_streams(tape, x, 1.0 / double(config_.streams));
  // The head mix is a gate over the streams: the fusion of a retrieval that has no partial source.
  const ops::DepthFusion gate{kernels::Fusion::Gate, {phi_, alpha_, bias_}};
  return ops::depth_merge(tape, x, {}, nullptr, gate, {}, config_.key_norm_eps).y;
}

}  // namespace strata::residual
