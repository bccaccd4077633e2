// How a sub-layer's input is read from what came before it: model.residual.
#pragma once
#include "base/error.h"
#include "base/fields.h"

namespace strata::residual {

enum class Type { Vanilla, AttnRes, Msar, Mhc, AttnResMhc };
constexpr auto enum_names(Type) {
  return std::array<std::string_view, 5>{"vanilla", "attnres", "msar", "mhc", "attnres_mhc"};
}
enum class Expansion { CausalConv, None };
constexpr auto enum_names(Expansion) { return std::array<std::string_view, 2>{"causal_conv", "none"}; }
enum class Fusion { Gate, Mean };
constexpr auto enum_names(Fusion) { return std::array<std::string_view, 2>{"gate", "mean"}; }
enum class Readout { HeadMix, Mean, Sum };
constexpr auto enum_names(Readout) { return std::array<std::string_view, 3>{"head_mix", "mean", "sum"}; }

struct Config {
  Type type = Type::Vanilla;
  std::optional<std::int64_t> num_blocks = {};  // unset: one block per sub-layer (the "full" form)
  std::int64_t streams = 4;
  Expansion expansion = Expansion::CausalConv;
  std::optional<std::vector<std::int64_t>> kernel_sizes = {};  // unset: by streams, see kernels()
  double conv_init_std = 0.02;
  Fusion fusion = Fusion::Gate;
  std::int64_t sinkhorn_iters = 20;
  Readout readout = Readout::HeadMix;
  double key_norm_eps = 1e-6;

  // Retrieves over depth, from blocks.
  bool has_blocks() const { return type == Type::AttnRes || type == Type::Msar || type == Type::AttnResMhc; }
  // The state is several streams with mixing coefficients.
  bool has_hyper_streams() const { return type == Type::Mhc || type == Type::AttnResMhc; }
  bool has_convolutions() const { return type == Type::Msar && expansion == Expansion::CausalConv; }

  // Sub-layers per block, S = ceil(L / N), and blocks that exist, ceil(L / S), of L sub-layers.
  std::int64_t block_size(std::int64_t sublayers) const;
  std::int64_t block_count(std::int64_t sublayers) const;
  // Taps of views 1..streams-1 as given or by default; empty without convolutions.
  std::vector<std::int64_t> kernels() const;

  void fields(FieldVisitor& v) {
    v("type", type, "residual connection");
    const bool depth = has_blocks(), hyper = has_hyper_streams(), msar = type == Type::Msar;
    v("num_blocks", num_blocks,
      "blocks of sub-layers; unset, or not below their number: every sub-layer is one",
      at_least(1).only(depth, "type is attnres, msar or attnres_mhc"));
    v("streams", streams, "views of each source (msar) or residual streams (mhc)",
      between(1, 64).only(msar || hyper, "type is msar, mhc or attnres_mhc"));
    v("expansion", expansion, "what makes a view of a source", only(msar, "type is msar"));
    constexpr std::string_view kConvolutions = "type is msar and expansion is causal_conv";
    v("kernel_sizes", kernel_sizes, "taps of the convolutions of views 1 to streams-1; unset: by streams",
      between(1, 1 << 20).only(has_convolutions(), kConvolutions));
    v("conv_init_std", conv_init_std, "standard deviation of the noise on the initial taps",
      at_least(0).only(has_convolutions(), kConvolutions));
    v("fusion", fusion, "how the views become one input", only(msar, "type is msar"));
    v("sinkhorn_iters", sinkhorn_iters, "Sinkhorn iterations",
      between(1, 1000).only(hyper, "type is mhc or attnres_mhc"));
    v("readout", readout, "how the streams become one at the head",
      only(hyper, "type is mhc or attnres_mhc"));
    v("key_norm_eps", key_norm_eps, "epsilon of the norms inside residual modules",
      above(0).only(type != Type::Vanilla, "type is not vanilla"));
  }
  void validate() const;
  bool operator==(const Config&) const = default;
};

}  // namespace strata::residual
