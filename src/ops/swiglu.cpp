#include "ops/swiglu.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct SwiGluNode final : Node {
  Var x, y;

  std::string_view name() const override { return "swiglu"; }
  std::vector<Tensor> saved() const override { return {x.value}; }
  void refill(Tape& tape) override { forward(tape); }
  void forward(Tape& tape) const { tape.stream().run(kernels::SwiGluForward{.x = x.value, .y = y.value}); }
  void backward(Tape& tape) override {
    tape.stream().run(kernels::SwiGluBackward{.dy = tape.grad(y), .x = x.value, .dx = tape.grad_into(x)});
  }
};

}  // namespace

Var swiglu(Tape& tape, const Var& x) {
  Shapes s("swiglu");
  s(x.value, "x", "T 2F");
  STRATA_CHECK(s["2F"] % 2 == 0, "swiglu: x is ", x.value.dims().text(), ", expected an even width");
  auto node = std::make_unique<SwiGluNode>();
  node->x = x;
  node->y = tape.output(tape.empty({s["T"], s["2F"] / 2}, x.value.dtype()));
  node->forward(tape);
  const Var y = node->y;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
