// Manifold-constrained hyper-connections (arXiv 2512.24880): h = H_pre X, X <- H_res X + H_post^T f(h), with
// H_res doubly stochastic. The state is the n streams X.
#include "ops/rms_norm.h"
#include "residual/hyper_streams.h"
#include "residual/variants.h"

namespace strata::residual {
namespace {

class Mhc final : public Residual {
 public:
  Mhc(const Config& config, const Shape& shape, ParameterStore& store)
      : width_(shape.hidden_size), streams_(config, shape, store) {}

  State open(Tape& tape, const Var& embedding) override {
    State state;
    state.items.push_back({"streams", false, ops::spread_streams(tape, embedding, streams_.count())});
    return state;
  }
  Reading read(Tape& tape, State& state, Slot slot, const Norm& norm) override {
    const Var coef = streams_.coefficients(tape, state["streams"], slot);
    const Var h = ops::hyper_read(tape, state["streams"], coef);
    const Var x = ops::rms_norm(tape, h, norm.weight, norm.eps);
    return {slot, x, {coef}, {x}};
  }
  void write(Tape& tape, State& state, const Reading& reading, const Var& update) override {
    Var& x = state["streams"];
    x = ops::hyper_write(tape, &x, update, reading.carry.at(0), streams_.count());
  }
  Var close(Tape& tape, State& state) override { return streams_.read_out(tape, state["streams"]); }
  Boundary boundary(Slot) const override { return {{"streams", false, {streams_.count(), width_}}}; }

 private:
  std::int64_t width_;
  HyperStreams streams_;
};

}  // namespace

std::unique_ptr<Residual> make_mhc(const Config& config, const Shape& shape, ParameterStore& store) {
  return std::make_unique<Mhc>(config, shape, store);
}

}  // namespace strata::residual
