#include "autograd/recompute.h"

namespace strata {
namespace {

struct RecomputeNode final : Node {
  std::vector<Var> inputs, outputs;  // outputs: only those the body made, values dropped
  std::vector<int> position;         // of each output in what the body returns
  Body body;

  std::string_view name() const override { return "recompute"; }
  std::vector<Tensor> saved() const override {
    std::vector<Tensor> tensors;
    for (const Var& v : inputs) tensors.push_back(v.value);
    return tensors;
  }
  void backward(Tape& tape) override {
    Tape inner(tape.device(), {.recording = true, .recompute = {}, .observer = nullptr, .replay = true});
    std::vector<Var> leaves;
    for (const Var& v : inputs)
      leaves.push_back(v.slot < 0 ? v : inner.leaf(v.value, [&tape, v] { return tape.grad_into(v); }));
    std::vector<Var> again;
    {
      const device::PhaseScope phase(tape.stream(), device::Phase::Recompute);
      again = body(inner, leaves);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (const Tensor dy = tape.grad(outputs[i]); dy.defined()) inner.adopt_grad(again[position[i]], dy);
    inner.backward(tape.weights());
    for (auto& work : inner.take_weight_work()) tape.weight_work(std::move(work));
  }
};

}  // namespace

std::vector<Var> recompute(Tape& tape, const std::vector<Var>& inputs, Body body) {
  if (!tape.recording()) return body(tape, inputs);
  Tape dry(
      tape.device(),
      {.recording = false, .recompute = {}, .observer = tape.observer(), .replay = tape.options().replay});
  std::vector<Var> leaves;
  for (const Var& v : inputs) leaves.push_back(v.slot < 0 ? v : dry.leaf(v.value));
  std::vector<Var> results = body(dry, leaves);

  auto node = std::make_unique<RecomputeNode>();
  for (std::size_t r = 0; r < results.size(); ++r) {
    bool passed = false;
    for (std::size_t i = 0; i < leaves.size() && !passed; ++i)
      if ((passed = results[r].slot >= 0 && results[r].slot == leaves[i].slot)) results[r] = inputs[i];
    if (passed || results[r].slot < 0) continue;
    results[r] = tape.output(results[r].value, dry.grad_dtype(results[r]));
    node->outputs.push_back({Tensor(), results[r].slot});
    node->position.push_back(int(r));
  }
  node->inputs = inputs;
  node->body = std::move(body);
  const std::vector<Var> outputs = node->outputs;
  tape.record(std::move(node), outputs);
  return results;
}

}  // namespace strata
