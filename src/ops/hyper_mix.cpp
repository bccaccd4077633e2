#include "kernels/jobs.h"
#include "ops/hyper.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct HyperReadNode final : Node {
  Var x, coef;
  Var z;  // slot only

  std::string_view name() const override { return "hyper_read"; }
  std::vector<Tensor> saved() const override { return {x.value, coef.value}; }
  void backward(Tape& tape) override {
    tape.stream().run(kernels::HyperReadBackward{.dz = tape.grad(z),
                                                 .x = x.value,
                                                 .coef = coef.value,
                                                 .dx = tape.grad_into(x),
                                                 .dcoef = tape.grad_into(coef)});
  }
};

struct HyperWriteNode final : Node {
  Var x, y, coef;  // x without a value: none
  Var next;        // slot only

  std::string_view name() const override { return "hyper_write"; }
  std::vector<Tensor> saved() const override { return {x.value, y.value, coef.value}; }
  void backward(Tape& tape) override {
    tape.stream().run(kernels::HyperWriteBackward{.dnext = tape.grad(next),
                                                  .x = x.value,
                                                  .y = y.value,
                                                  .coef = coef.value,
                                                  .dx = tape.grad_into(x),
                                                  .dy = tape.grad_into(y),
                                                  .dcoef = tape.grad_into(coef)});
  }
};

struct SpreadNode final : Node {
  Var x, y;  // slots only

  std::string_view name() const override { return "spread_streams"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    if (const Grad dx = tape.grad_into(x))
      tape.stream().run(kernels::SumStreams{.x = tape.grad(y), .y = dx.view, .mode = dx.mode});
  }
};

struct SumNode final : Node {
  Var x, y;  // slots only
  double scale;

  std::string_view name() const override { return "sum_streams"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    if (const Grad dx = tape.grad_into(x))
      tape.stream().run(
          kernels::SpreadStreams{.x = tape.grad(y), .y = dx.view, .scale = scale, .mode = dx.mode});
  }
};

}  // namespace

Var hyper_read(Tape& tape, const Var& x, const Var& coef) {
  Shapes s("hyper_read");
  s(x.value, "x", "T n D").bind("C", s["n"] * (s["n"] + 2))(coef.value, "coef", "T C");
  const Var z = tape.output(tape.empty({s["T"], s["D"]}, x.value.dtype()));
  auto node = std::make_unique<HyperReadNode>();
  node->x = x;
  node->coef = coef;
  node->z.slot = z.slot;
  tape.stream().run(kernels::HyperReadForward{.x = x.value, .coef = coef.value, .z = z.value});
  tape.record(std::move(node), {z});
  return z;
}

Var hyper_write(Tape& tape, const Var* x, const Var& y, const Var& coef, std::int64_t streams,
                std::optional<DType> grad_dtype) {
  Shapes s("hyper_write");
  s.bind("n", streams).bind("C", streams * (streams + 2))(y.value, "y", "T D")(coef.value, "coef", "T C");
  if (x) s(x->value, "x", "T n D");
  const Var next = tape.output(tape.empty({s["T"], streams, s["D"]}, y.value.dtype()), grad_dtype);
  auto node = std::make_unique<HyperWriteNode>();
  if (x) node->x = *x;
  node->y = y;
  node->coef = coef;
  node->next.slot = next.slot;
  tape.stream().run(
      kernels::HyperWriteForward{.x = node->x.value, .y = y.value, .coef = coef.value, .next = next.value});
  tape.record(std::move(node), {next});
  return next;
}

Var spread_streams(Tape& tape, const Var& x, std::int64_t streams, std::optional<DType> grad_dtype) {
  Shapes s("spread_streams");
  s(x.value, "x", "T D");
  const Var y = tape.output(tape.empty({s["T"], streams, s["D"]}, x.value.dtype()), grad_dtype);
  auto node = std::make_unique<SpreadNode>();
  node->x.slot = x.slot;
  node->y.slot = y.slot;
  tape.stream().run(kernels::SpreadStreams{.x = x.value, .y = y.value});
  tape.record(std::move(node), {y});
  return y;
}

Var sum_streams(Tape& tape, const Var& x, double scale) {
  Shapes s("sum_streams");
  s(x.value, "x", "T n D");
  const Var y = tape.output(tape.empty({s["T"], s["D"]}, x.value.dtype()));
  auto node = std::make_unique<SumNode>();
  node->x.slot = x.slot;
  node->y.slot = y.slot;
  node->scale = scale;
  tape.stream().run(kernels::SumStreams{.x = x.value, .y = y.value, .scale = scale});
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
