#include "ops/rms_norm.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct RmsNormNode final : Node {
  Var x, y;
  Parameter* weight;
  Tensor rstd;
  double eps;

  std::string_view name() const override { return "rms_norm"; }
  std::vector<Tensor> saved() const override { return {x.value, rstd}; }
  void refill(Tape& tape) override { forward(tape); }
  void forward(Tape& tape) const {
    tape.stream().run(kernels::RmsNormForward{
        .x = x.value, .weight = weight ? weight->value : Tensor(), .eps = eps, .y = y.value, .rstd = rstd});
  }
  void backward(Tape& tape) override {
    tape.stream().run(kernels::RmsNormBackward{.dy = tape.grad(y),
                                               .x = x.value,
                                               .weight = weight ? weight->value : Tensor(),
                                               .rstd = rstd,
                                               .dx = tape.grad_into(x),
                                               .dweight = weight ? weight->grad : Tensor()});
  }
};

}  // namespace

Var rms_norm(Tape& tape, const Var& x, Parameter* weight, double eps) {
  auto node = std::make_unique<RmsNormNode>();
  node->x = x;
  node->y = tape.output(tape.empty(x.value.dims(), x.value.dtype()));
  node->weight = weight;
  node->rstd = tape.empty({x.value.dim(0)}, acc_of(x.value.dtype()));
  node->eps = eps;
  Shapes s("rms_norm");
  s(x.value, "x", "T D");
  if (weight) s(weight->value, "weight", "D");
  node->forward(tape);
  const Var y = node->y;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
