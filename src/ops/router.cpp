#include "ops/router.h"

#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct RouterNode final : Node {
  Var logits, gates, aux;
  Tensor scores, indices, fraction;
  kernels::RouterRule rule;
  std::int64_t batch;

  std::string_view name() const override { return "router"; }
  std::vector<Tensor> saved() const override {
    return {logits.value, gates.value, scores, indices, fraction};
  }
  void backward(Tape& tape) override {
    tape.stream().run(kernels::RouterBackward{.dgates = tape.grad(gates),
                                              .daux = tape.grad(aux),
                                              .logits = logits.value,
                                              .scores = scores,
                                              .indices = indices,
                                              .gates = gates.value,
                                              .fraction = fraction,
                                              .rule = rule,
                                              .batch = batch,
                                              .dlogits = tape.grad_into(logits)});
  }
};

}  // namespace

Routed route(Tape& tape, const Var& logits, const Tensor& bias, const kernels::RouterRule& rule,
             std::int64_t batch, const Tensor& load) {
  Shapes s("router");
  s(logits.value, "logits", "T E").bind("K", rule.top_k);
  if (bias.defined()) s(bias, "bias", "E");
  const DType full = logits.value.dtype();
  auto node = std::make_unique<RouterNode>();
  node->logits = logits;
  node->gates = tape.output(tape.empty({s["T"], s["K"]}, full));
  node->aux = tape.output(tape.empty({1}, full));
  node->scores = tape.empty({s["T"], s["E"]}, full);
  node->indices = tape.empty({s["T"], s["K"]}, DType::Int32);
  node->fraction = tape.empty({batch, s["E"]}, full);
  node->rule = rule;
  node->batch = batch;
  const Routed routed{node->gates, node->aux, node->indices};
  tape.stream().run(kernels::RouterForward{.logits = logits.value,
                                           .bias = bias,
                                           .rule = rule,
                                           .batch = batch,
                                           .scores = node->scores,
                                           .indices = node->indices,
                                           .gates = routed.gates.value,
                                           .load = tape.options().replay ? Tensor() : load,
                                           .fraction = node->fraction,
                                           .aux = routed.aux.value});
  tape.record(std::move(node), {routed.gates, routed.aux});
  return routed;
}

RoutingPlan plan_routing(Tape& tape, const Tensor& indices, std::int64_t experts) {
  const Dims slots{indices.numel()};
  RoutingPlan plan{tape.empty({experts + 1}, DType::Int32), tape.empty(slots, DType::Int32),
                   tape.empty(slots, DType::Int32)};
  tape.stream().run(kernels::PlanRouting{
      .indices = indices, .offsets = plan.offsets, .row_slot = plan.row_slot, .slot_row = plan.slot_row});
  return plan;
}

}  // namespace strata::ops
