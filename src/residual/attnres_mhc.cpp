// The hybrid: every sub-layer first retrieves over depth, per stream, from n-stream sources (AttnRes, arXiv
// 2603.15031), then reads the result Z and writes the running block's sum as hyper-connections do (mHC, arXiv
// 2512.24880), all coefficients from Z.
#include "ops/rms_norm.h"
#include "residual/depth_blocks.h"
#include "residual/hyper_streams.h"
#include "residual/variants.h"

namespace strata::residual {
namespace {

class AttnResMhc final : public Residual {
 public:
  AttnResMhc(const Config& config, const Shape& shape, ParameterStore& store)
      : blocks_(config, shape, {.views = config.streams, .streams = true, .first_target = 1}, store),
        streams_(config, shape, store) {}

  State open(Tape& tape, const Var& embedding) override {
    const DType full = acc_of(embedding.value.dtype());  // many sub-layers add to a block's gradient
    return blocks_.open(ops::spread_streams(tape, embedding, streams_.count(), full));
  }
  void prepare(Tape& tape, State& state, Slot next) override { blocks_.prepare(tape, state, next); }
  Reading read(Tape& tape, State& state, Slot slot, const Norm& norm) override {
    const ops::DepthMerged z = blocks_.retrieve(tape, state, slot, {kernels::Fusion::None, {}});
    const Var coef = streams_.coefficients(tape, z.y, slot);
    const Var x = ops::rms_norm(tape, ops::hyper_read(tape, z.y, coef), norm.weight, norm.eps);
    blocks_.release(tape, state, slot, z.owned ? &z.y : nullptr);
    return {slot, x, {coef}, {x}};
  }
  void write(Tape& tape, State& state, const Reading& reading, const Var& update) override {
    const DType full = acc_of(update.value.dtype());
    const Var sum = ops::hyper_write(tape, blocks_.partial(state, reading.slot), update, reading.carry.at(0),
                                     streams_.count(), full);
    blocks_.settle(state, reading.slot, sum);
  }
  Var close(Tape& tape, State& state) override {
    const ops::DepthMerged z = blocks_.retrieve(tape, state, blocks_.head(), {kernels::Fusion::None, {}});
    return streams_.read_out(tape, z.y);
  }
  Boundary boundary(Slot next) const override { return blocks_.boundary(next); }

 private:
  DepthBlocks blocks_;
  HyperStreams streams_;
};

}  // namespace

std::unique_ptr<Residual> make_attnres_mhc(const Config& config, const Shape& shape, ParameterStore& store) {
  return std::make_unique<AttnResMhc>(config, shape, store);
}

}  // namespace strata::residual
