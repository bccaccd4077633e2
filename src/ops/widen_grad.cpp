#include "ops/widen_grad.h"

namespace strata::ops {
namespace {

struct WidenGradNode final : Node {
  Var x, y;  // slots only

  std::string_view name() const override { return "widen_grad"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override { tape.pass_grad(y, x); }
};

}  // namespace

Var widen_grad(Tape& tape, const Var& x) {
  const DType wide = acc_of(x.value.dtype());
  if (x.slot < 0 || tape.grad_dtype(x) == wide) return x;
  const Var y = tape.output(x.value, wide);
  auto node = std::make_unique<WidenGradNode>();
  node->x.slot = x.slot;
  node->y.slot = y.slot;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
