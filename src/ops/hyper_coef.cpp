#include "kernels/jobs.h"
#include "ops/hyper.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

kernels::HyperWeights weights(const HyperParameters& p) {
  return {.alpha_pre = p.alpha_pre->value,
          .alpha_post = p.alpha_post->value,
          .alpha_res = p.alpha_res->value,
          .bias_pre = p.bias_pre->value,
          .bias_post = p.bias_post->value,
          .bias_res = p.bias_res->value};
}

struct PhiWork final : WeightWork {
  Tensor draw, x;  // [T,C], [T,n*D]
  Parameter* phi;

  void run(device::Device& device) override {
    device.compute().run(
        kernels::Gemm{.a = draw, .b = x, .c = phi->grad, .transpose_a = true, .mode = Write::Accumulate});
  }
};

struct HyperCoefNode final : Node {
  Var x, coef;
  HyperParameters parameters;
  Tensor raw, rstd;
  std::int64_t streams, iterations;

  std::string_view name() const override { return "hyper_coef"; }
  std::vector<Tensor> saved() const override { return {x.value, raw, rstd, coef.value}; }
  Tensor flat() const { return x.value.reshape({x.value.dim(0), streams * x.value.dim(2)}); }

  void backward(Tape& tape) override {
    const HyperParameters& p = parameters;
    const Tensor dnormed = tape.empty(raw.dims(), raw.dtype()), draw = tape.empty(raw.dims(), raw.dtype());
    tape.stream().run(kernels::HyperCoefBackward{.dcoef = tape.grad(coef),
                                                 .raw = raw,
                                                 .rstd = rstd,
                                                 .coef = coef.value,
                                                 .weights = weights(p),
                                                 .streams = streams,
                                                 .iterations = iterations,
                                                 .dnormed = dnormed,
                                                 .draw = draw,
                                                 .dalpha_pre = p.alpha_pre->grad,
                                                 .dalpha_post = p.alpha_post->grad,
                                                 .dalpha_res = p.alpha_res->grad,
                                                 .dbias_pre = p.bias_pre->grad,
                                                 .dbias_post = p.bias_post->grad,
                                                 .dbias_res = p.bias_res->grad});
    if (Grad dx = tape.grad_into(x)) {
      const Tensor dxn = tape.empty(flat().dims(), x.value.dtype());
      tape.stream().run(kernels::Gemm{.a = dnormed, .b = p.phi->value, .c = dxn});
      dx.view.dims = dxn.dims();
      tape.stream().run(kernels::RmsNormBackward{
          .dy = dxn, .x = flat(), .weight = {}, .rstd = rstd, .dx = dx, .dweight = {}});
    }
    if (!p.phi->grad.defined()) return;
    auto work = std::make_unique<PhiWork>();
    work->draw = draw;
    work->x = flat();
    work->phi = p.phi;
    tape.weight_work(std::move(work));
  }
};

}  // namespace

Var hyper_coef(Tape& tape, const Var& x, const HyperParameters& p, std::int64_t sinkhorn_iters, double eps) {
  Shapes s("hyper_coef");
  s(x.value, "x", "T n D")(p.alpha_pre->value, "alpha_pre", "1")(p.bias_pre->value, "bias_pre", "n");
  s(p.bias_post->value, "bias_post", "n")(p.bias_res->value, "bias_res", "n n");
  s.bind("C", s["n"] * (s["n"] + 2)).bind("nD", s["n"] * s["D"])(p.phi->value, "phi", "C nD");
  const DType full = acc_of(x.value.dtype());
  auto node = std::make_unique<HyperCoefNode>();
  node->x = x;
  node->parameters = p;
  node->streams = s["n"];
  node->iterations = sinkhorn_iters;
  node->raw = tape.empty({s["T"], s["C"]}, full);
  node->rstd = tape.empty({s["T"]}, full);
  node->coef = tape.output(tape.empty({s["T"], s["C"]}, full));
  const Var coef = node->coef;
  tape.stream().run(
      kernels::RmsNormForward{.x = node->flat(), .weight = {}, .eps = eps, .y = {}, .rstd = node->rstd});
  tape.stream().run(kernels::Gemm{.a = node->flat(), .b = p.phi->value, .c = node->raw, .transpose_b = true});
  tape.stream().run(kernels::HyperCoefForward{.raw = node->raw,
                                              .rstd = node->rstd,
                                              .weights = weights(p),
                                              .streams = s["n"],
                                              .iterations = sinkhorn_iters,
                                              .coef = coef.value});
  tape.record(std::move(node), {coef});
  return coef;
}

}  // namespace strata::ops
