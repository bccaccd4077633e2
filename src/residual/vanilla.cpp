// h <- h + f(h).
#include "ops/add.h"
#include "ops/rms_norm.h"
#include "residual/variants.h"

namespace strata::residual {
namespace {

class Vanilla final : public Residual {
 public:
  explicit Vanilla(const Shape& shape) : width_(shape.hidden_size) {}

  State open(Tape&, const Var& embedding) override {
    State state;
    state.items.push_back({"hidden", false, embedding});
    return state;
  }
  Reading read(Tape& tape, State& state, Slot slot, const Norm& norm) override {
    const Var x = ops::rms_norm(tape, state["hidden"], norm.weight, norm.eps);
    return {slot, x, {}, {x}};
  }
  void write(Tape& tape, State& state, const Reading&, const Var& update) override {
    state["hidden"] = ops::add(tape, state["hidden"], update);
  }
  Var close(Tape&, State& state) override { return state["hidden"]; }
  Boundary boundary(Slot) const override { return {{"hidden", false, {width_}}}; }

 private:
  std::int64_t width_;
};

}  // namespace

std::unique_ptr<Residual> make_vanilla(const Config&, const Shape& shape, ParameterStore&) {
  return std::make_unique<Vanilla>(shape);
}

}  // namespace strata::residual
