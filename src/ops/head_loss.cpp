#include "ops/head_loss.h"

#include <algorithm>

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

constexpr std::int64_t kChunkElements = std::int64_t(1) << 22;  // logits held at once

// What forward and both backward passes walk over, chunk by chunk.
struct Chunked {
  Tensor x, labels, lse;
  Parameter* weight = nullptr;
  double scale = 1;

  std::int64_t rows() const { return std::max<std::int64_t>(1, kChunkElements / weight->dims[0]); }
  template <class F>
  void each(F&& f) const {
    for (std::int64_t begin = 0; begin < x.dim(0); begin += rows())
      f(begin, std::min(x.dim(0), begin + rows()));
  }
  Tensor logits(device::Device& device, std::int64_t begin, std::int64_t end) const {
    Tensor l(device, {end - begin, weight->dims[0]}, acc_of(x.dtype()));
    device.compute().run(
        kernels::Gemm{.a = x.slice(begin, end), .b = weight->value, .c = l, .transpose_b = true});
    return l;
  }
  Tensor logits_again(device::Device& device, std::int64_t begin, std::int64_t end) const {
    const device::PhaseScope phase(device.compute(), device::Phase::Recompute);
    return logits(device, begin, end);
  }
  Tensor dlogits(device::Device& device, const Tensor& dloss, std::int64_t begin, std::int64_t end) const {
    const Tensor l = logits_again(device, begin, end);
    const Tensor d = x.dtype() == l.dtype() ? l : Tensor(device, l.dims(), x.dtype());
    device.compute().run(kernels::CrossEntropyBackward{.logits = l,
                                                       .labels = labels.slice(begin, end),
                                                       .lse = lse.slice(begin, end),
                                                       .dloss = dloss,
                                                       .scale = scale,
                                                       .dlogits = d});
    return d;
  }
  void add_weight_gradient(device::Device& device, const Tensor& d, std::int64_t begin,
                           std::int64_t end) const {
    device.compute().run(kernels::Gemm{
        .a = d, .b = x.slice(begin, end), .c = weight->grad, .transpose_a = true, .mode = Write::Accumulate});
  }
};

struct HeadWork final : WeightWork {
  Chunked head;
  Tensor dloss;

  void run(device::Device& device) override {
    head.each([&](std::int64_t begin, std::int64_t end) {
      head.add_weight_gradient(device, head.dlogits(device, dloss, begin, end), begin, end);
    });
  }
};

struct HeadLossNode final : Node {
  Var x, loss;
  Chunked head;

  std::string_view name() const override { return "head_loss"; }
  std::vector<Tensor> saved() const override { return {head.x, head.labels, head.lse}; }
  void backward(Tape& tape) override {
    const Tensor dloss = tape.grad(loss);
    const Grad dx = tape.grad_into(x);
    const bool trained = head.weight->grad.defined(), now = tape.weights() == Weights::Now;
    if (dx || (trained && now))
      head.each([&](std::int64_t begin, std::int64_t end) {
        const Tensor d = head.dlogits(tape.device(), dloss, begin, end);
        if (dx) {
          View rows = dx.view;
          rows.data = static_cast<std::byte*>(rows.data) + begin * rows.dims[1] * size_of(rows.dtype);
          rows.dims.extent[0] = end - begin;
          tape.stream().run(kernels::Gemm{.a = d, .b = head.weight->value, .c = rows, .mode = dx.mode});
        }
        if (trained && now) head.add_weight_gradient(tape.device(), d, begin, end);
      });
    if (!trained || now) return;
    auto work = std::make_unique<HeadWork>();
    work->head = head;
    work->dloss = dloss;
    tape.weight_work(std::move(work));
  }
};

}  // namespace

HeadLoss head_loss(Tape& tape, const Var& x, Parameter& weight, const Tensor& labels, double scale) {
  Shapes s("head_loss");
  s(x.value, "x", "T D")(weight.value, "weight", "V D")(labels, "labels", "T");
  const DType full = acc_of(x.value.dtype());
  auto node = std::make_unique<HeadLossNode>();
  node->x = x;
  node->loss = tape.output(tape.empty({1}, full));
  node->head = {x.value, labels, tape.empty({s["T"]}, full), &weight, scale};
  HeadLoss result{node->loss, tape.empty({s["T"]}, full)};
  node->head.each([&](std::int64_t begin, std::int64_t end) {
    tape.stream().run(kernels::CrossEntropyForward{.logits = node->head.logits(tape.device(), begin, end),
                                                   .labels = labels.slice(begin, end),
                                                   .loss = result.token_loss.slice(begin, end),
                                                   .lse = node->head.lse.slice(begin, end)});
  });
  tape.stream().run(kernels::Sum{.x = result.token_loss, .y = result.loss.value, .scale = scale});
  tape.record(std::move(node), {result.loss});
  return result;
}

}  // namespace strata::ops
