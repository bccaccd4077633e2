#include "ops/embedding.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct EmbeddingWork final : WeightWork {
  Tensor ids, dy;
  Parameter* weight;

  void run(device::Device& device) override {
    device.compute().run(kernels::EmbeddingBackward{.ids = ids, .dy = dy, .dweight = weight->grad});
  }
};

struct EmbeddingNode final : Node {
  Var y;  // slot only
  Tensor ids;
  Parameter* weight;

  std::string_view name() const override { return "embedding"; }
  std::vector<Tensor> saved() const override { return {ids}; }
  void backward(Tape& tape) override {
    if (!weight->grad.defined()) return;
    auto work = std::make_unique<EmbeddingWork>();
    work->ids = ids;
    work->dy = tape.grad(y);
    work->weight = weight;
    tape.weight_work(std::move(work));
  }
};

}  // namespace

Var embedding(Tape& tape, const Tensor& ids, Parameter& weight) {
  Shapes s("embedding");
  s(ids, "ids", "T")(weight.value, "weight", "V D");
  const Var y = tape.output(tape.empty({s["T"], s["D"]}, weight.value.dtype()));
  auto node = std::make_unique<EmbeddingNode>();
  node->y.slot = y.slot;
  node->ids = ids;
  node->weight = &weight;
  tape.stream().run(kernels::EmbeddingForward{.ids = ids, .weight = weight.value, .y = y.value});
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
