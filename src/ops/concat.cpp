#include "ops/concat.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct ConcatNode final : Node {
  Var a, b, y;  // slots only

  std::string_view name() const override { return "concat_columns"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    const Grad da = tape.grad_into(a), db = tape.grad_into(b);
    if (da || db) tape.stream().run(kernels::SplitColumns{.dy = tape.grad(y), .da = da, .db = db});
  }
};

}  // namespace

Var concat_columns(Tape& tape, const Var& a, const Var& b) {
  Shapes s("concat_columns");
  s(a.value, "a", "T A")(b.value, "b", "T B");
  STRATA_CHECK(a.value.dtype() == b.value.dtype(), "concat_columns: ", name_of(a.value.dtype()), " beside ",
               name_of(b.value.dtype()));
  const Var y = tape.output(tape.empty({s["T"], s["A"] + s["B"]}, a.value.dtype()));
  tape.stream().run(kernels::ConcatColumns{.a = a.value, .b = b.value, .y = y.value});
  auto node = std::make_unique<ConcatNode>();
  node->a.slot = a.slot;
  node->b.slot = b.slot;
  node->y.slot = y.slot;
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
