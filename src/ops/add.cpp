#include "ops/add.h"

#include "kernels/jobs.h"

namespace strata::ops {
namespace {

struct AddNode final : Node {
  Var a, b, y;  // slots only

  std::string_view name() const override { return "add"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    // b first: a may take y's gradient over, memory and all.
    if (const Grad db = tape.grad_into(b))
      tape.stream().run(kernels::Copy{.x = tape.grad(y), .y = db.view, .mode = db.mode});
    tape.pass_grad(y, a);
  }
};

}  // namespace

Var add(Tape& tape, const Var& a, const Var& b, std::optional<DType> grad_dtype) {
  STRATA_CHECK(a.value.dims() == b.value.dims() && a.value.dtype() == b.value.dtype(), "add: a is ",
               name_of(a.value.dtype()), " ", a.value.dims().text(), ", b is ", name_of(b.value.dtype()), " ",
               b.value.dims().text());
  const Var y = tape.output(tape.empty(a.value.dims(), a.value.dtype()), grad_dtype);
  tape.stream().run(kernels::Add{.a = a.value, .b = b.value, .y = y.value});
  auto node = std::make_unique<AddNode>();
  node->a.slot = a.slot;
  node->b.slot = b.slot;
  node->y.slot = y.slot;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
