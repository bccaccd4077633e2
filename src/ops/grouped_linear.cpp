#include "ops/grouped_linear.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct GroupedLinearWeightWork final : WeightWork {
  Tensor x, dy, offsets;
  Parameter* w;

  void run(device::Device& device) override {
    device.compute().run(kernels::GroupedGemmWeight{.dy = dy, .x = x, .offsets = offsets, .dw = w->grad});
  }
};

struct GroupedLinearNode final : Node {
  Var x;  // the value only where the weight wants a gradient
  Var y;  // slot only
  Tensor offsets;
  Parameter* w;

  std::string_view name() const override { return "grouped_linear"; }
  std::vector<Tensor> saved() const override { return {x.value, offsets}; }
  void backward(Tape& tape) override {
    const Tensor dy = tape.grad(y);
    if (const Grad dx = tape.grad_into(x))
      tape.stream().run(kernels::GroupedGemm{
          .x = dy, .w = w->value, .offsets = offsets, .y = dx.view, .w_transposed = false, .mode = dx.mode});
    if (!w->grad.defined()) return;
    auto work = std::make_unique<GroupedLinearWeightWork>();
    work->x = std::move(x.value);
    work->dy = dy;
    work->offsets = offsets;
    work->w = w;
    tape.weight_work(std::move(work));
  }
};

}  // namespace

Var grouped_linear(Tape& tape, const Var& rows, Parameter& w, const Tensor& offsets) {
  Shapes s("grouped_linear");
  s(rows.value, "rows", "R I")(w.value, "weight", "E O I").bind("E+1", s["E"] + 1)(offsets, "offsets", "E+1");
  const Var y = tape.output(tape.empty({s["R"], s["O"]}, rows.value.dtype()));
  tape.stream().run(kernels::GroupedGemm{.x = rows.value, .w = w.value, .offsets = offsets, .y = y.value});
  auto node = std::make_unique<GroupedLinearNode>();
  node->x = {w.grad.defined() ? rows.value : Tensor(), rows.slot};
  node->y = {Tensor(), y.slot};
  node->offsets = offsets;
  node->w = &w;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
