// Multi-Stream Attention Residuals: m views of every block's sum (itself and causal convolutions of it), a
// softmax over depth for each, and a gate that makes one input of them.
#include "residual/depth_residual.h"
#include "residual/variants.h"

namespace strata::residual {
namespace {

class Msar final : public DepthResidual {
 public:
  Msar(const Config& config, const Shape& shape, ParameterStore& store)
      : DepthResidual(config, shape, config.streams, store), gates_(shape.sublayers + 2) {
    if (config.has_convolutions()) blocks_.add_convolutions(config, store);
    if (config.fusion == Fusion::Mean) return;
    for (int l = 2; l <= shape.sublayers + 1; ++l)
      if (shape.reads(l)) gates_[l] = add_gate(blocks_.prefix({l}), config, shape, store);
    kind_ = kernels::Fusion::Gate;
  }

 private:
  static ops::GateParameters add_gate(const std::string& prefix, const Config& config, const Shape& shape,
                                      ParameterStore& store) {
    const std::int64_t m = config.streams;
    const auto add = [&](const char* name, Dims dims, Init init, Decay decay) {
      return &store.add({.name = prefix + ".gate." + name,
                         .dims = dims,
                         .init = init,
                         .decay = decay,
                         .precision = Precision::Full});
    };
    return {.weight =
                add("weight", {m, m * shape.hidden_size}, Init::normal(shape.initializer_range), Decay::Yes),
            .scale = add("scale", {1}, Init::constant(0.01), Decay::No),
            .bias = add("bias", {m}, Init::constant(0), Decay::No)};
  }
  ops::DepthFusion fusion(Slot target) const override { return {kind_, gates_[target.number]}; }

  kernels::Fusion kind_ = kernels::Fusion::Mean;
  std::vector<ops::GateParameters> gates_;  // by slot number
};

}  // namespace

std::unique_ptr<Residual> make_msar(const Config& config, const Shape& shape, ParameterStore& store) {
  return std::make_unique<Msar>(config, shape, store);
}

}  // namespace strata::residual
