#include "ops/head_loss.h"

#include <algorithm>

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t(1) << 22;  // logits held at once

// Walks over the tokens, a chunk of logits at a time.
struct Chunked {
  Tensor x, labels, token_loss;
  Parameter* weight = nullptr;
  double scale = 1;

  std::int64_t rows() const { return std::max<std::int64_t>(1, kChunkElements / weight->dims[0]); }
  template <class F>
  void each(F&& f) const {
    for (std::int64_t begin = 0; begin < x.dim(0); begin += rows())
      f(begin, std::min(x.dim(0), begin + rows()));
  }
  struct Logits {
    Tensor values, lse;
  };
  // The tokens' losses fall out. Forward work, also where backward does it.
  Logits logits(device::Device& device, std::int64_t begin, std::int64_t end) const {
    const device::PhaseScope phase(device.compute(), device::Phase::Forward);
    const DType full = acc_of(x.dtype());
    const Logits l{Tensor(device, {end - begin, weight->dims[0]}, full), Tensor(device, {end - begin}, full)};
    device.compute().run(
        kernels::Gemm{.a = x.slice(begin, end), .b = weight->value, .c = l.values, .transpose_b = true});
    device.compute().run(kernels::CrossEntropyForward{.logits = l.values,
                                                      .labels = labels.slice(begin, end),
                                                      .loss = token_loss.slice(begin, end),
                                                      .lse = l.lse});
    return l;
  }
  void sum(device::Device& device, const Tensor& loss) const {
    const device::PhaseScope phase(device.compute(), device::Phase::Forward);
    device.compute().run(kernels::Sum{.x = token_loss, .y = loss, .scale = scale});
  }
};

// One pass does all there is to do, so that no logits are computed twice. The weight's gradient is never
// postponed: it would cost them again.
struct HeadLossNode final : Node {
  Var x, loss;
  Chunked head;

  std::string_view name() const override { return "head_loss"; }
  std::vector<Tensor> saved() const override { return {head.x, head.labels}; }
  void backward(Tape& tape) override {
    const Tensor dloss = tape.grad(loss);
    const Grad dx = tape.grad_into(x);
    head.each([&](std::int64_t begin, std::int64_t end) {
      const Chunked::Logits l = head.logits(tape.device(), begin, end);
      if (dx || head.weight->grad.defined()) write_gradients(tape, l, dloss, dx, begin, end);
    });
    head.sum(tape.device(), loss.value);
  }

 private:
  void write_gradients(Tape& tape, const Chunked::Logits& l, const Tensor& dloss, const Grad& dx,
                       std::int64_t begin, std::int64_t end) const {
    const Tensor x = head.x.slice(begin, end);
    const Tensor d = x.dtype() == l.values.dtype() ? l.values : tape.empty(l.values.dims(), x.dtype());
    tape.stream().run(kernels::CrossEntropyBackward{.logits = l.values,
                                                    .labels = head.labels.slice(begin, end),
                                                    .lse = l.lse,
                                                    .dloss = dloss,
                                                    .scale = head.scale,
                                                    .dlogits = d});
    if (dx) {
      View rows = dx.view;
      rows.data = static_cast<std::byte*>(rows.data) + begin * rows.dims[1] * size_of(rows.dtype);
      rows.dims.extent[0] = end - begin;
      tape.stream().run(kernels::Gemm{.a = d, .b = head.weight->value, .c = rows, .mode = dx.mode});
    }
    if (head.weight->grad.defined())
      tape.stream().run(kernels::Gemm{
          .a = d, .b = x, .c = head.weight->grad, .transpose_a = true, .mode = Write::Accumulate});
  }
};

}  // namespace

HeadLoss head_loss(Tape& tape, const Var& x, Parameter& weight, const Tensor& labels, double scale) {
  Shapes s("head_loss");
  s(x.value, "x", "T D")(weight.value, "weight", "V D")(labels, "labels", "T");
  const DType full = acc_of(x.value.dtype());
  const HeadLoss result{tape.output(tape.empty({1}, full)), tape.empty({s["T"]}, full)};
  const Chunked head{x.value, labels, result.token_loss, &weight, scale};
  if (tape.recording()) {
    auto node = std::make_unique<HeadLossNode>();
    node->x = x;
    node->loss = result.loss;
    node->head = head;
    tape.record(std::move(node), {result.loss});
    return result;
  }
  head.each([&](std::int64_t begin, std::int64_t end) { head.logits(tape.device(), begin, end); });
  head.sum(tape.device(), result.loss.value);
  return result;
}

}  // namespace strata::ops
