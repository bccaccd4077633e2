#include "ops/linear.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct LinearWeightWork final : WeightWork {
  Tensor x, dy;
  Parameter* w;

  void run(device::Device& device) override {
    device.compute().run(
        kernels::Gemm{.a = dy, .b = x, .c = w->grad, .transpose_a = true, .mode = Write::Accumulate});
  }
};

struct LinearNode final : Node {
  Var x;  // the value only where the weight wants a gradient
  Var y;  // slot only
  Parameter* w;

  std::string_view name() const override { return "linear"; }
  std::vector<Tensor> saved() const override { return {x.value}; }
  void backward(Tape& tape) override {
    const Tensor dy = tape.grad(y);
    if (const Grad dx = tape.grad_into(x))
      tape.stream().run(kernels::Gemm{.a = dy, .b = w->value, .c = dx.view, .mode = dx.mode});
    if (!w->grad.defined()) return;
    auto work = std::make_unique<LinearWeightWork>();
    work->x = std::move(x.value);
    work->dy = dy;
    work->w = w;
    tape.weight_work(std::move(work));
  }
};

}  // namespace

Var linear(Tape& tape, const Var& x, Parameter& w, std::optional<DType> out_dtype) {
  Shapes s("linear");
  s(x.value, "x", "T I")(w.value, "weight", "O I");
  const Var y = tape.output(tape.empty({s["T"], s["O"]}, out_dtype.value_or(x.value.dtype())));
  tape.stream().run(kernels::Gemm{.a = x.value, .b = w.value, .c = y.value, .transpose_b = true});
  auto node = std::make_unique<LinearNode>();
  node->x = {w.grad.defined() ? x.value : Tensor(), x.slot};
  node->y = {Tensor(), y.slot};
  node->w = &w;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
