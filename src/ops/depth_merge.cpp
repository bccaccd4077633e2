#include "ops/depth_merge.h"

#include "ops/depth_kernels.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

using kernels::Fusion;

struct DepthMergeNode final : Node {
  Var out, lse, y;
  DepthPartial partial;  // value undefined: none
  DepthFusion fusion;
  Sequences sequences;
  double eps;
  Tensor logits, rstd, gates, gate_rstd;

  std::string_view name() const override { return "depth_merge"; }
  std::vector<Tensor> saved() const override {
    return {out.value, lse.value, partial.value.value, logits, rstd, gates, gate_rstd};
  }
  void refill(Tape& tape) override { forward(tape); }

  bool merges() const { return partial.value.value.defined(); }
  kernels::DepthSource source() const {
    return merges() ? depth_source(partial.value.value, partial.convs) : kernels::DepthSource{};
  }
  kernels::DepthQuery ask() const { return merges() ? depth_query(partial.target) : kernels::DepthQuery{}; }
  kernels::GateWeights gate() const {
    const GateParameters& g = fusion.gate;
    if (fusion.kind != Fusion::Gate) return {};
    return {.weight = g.weight->value, .scale = g.scale->value, .bias = g.bias->value};
  }
  void forward(Tape& tape) const {
    tape.stream().run(kernels::DepthMergeForward{.out = out.value,
                                                 .lse = lse.value,
                                                 .partial = source(),
                                                 .ask = ask(),
                                                 .fusion = fusion.kind,
                                                 .gate = gate(),
                                                 .sequences = sequences,
                                                 .eps = eps,
                                                 .y = y.value,
                                                 .logits = logits,
                                                 .rstd = rstd,
                                                 .gates = gates,
                                                 .gate_rstd = gate_rstd});
  }
  void backward(Tape& tape) override {
    const bool gated = fusion.kind == Fusion::Gate;
    tape.stream().run(kernels::DepthMergeBackward{
        .dy = tape.grad(y),
        .out = out.value,
        .lse = lse.value,
        .partial = source(),
        .ask = ask(),
        .fusion = fusion.kind,
        .gate = gate(),
        .sequences = sequences,
        .logits = logits,
        .rstd = rstd,
        .gates = gates,
        .gate_rstd = gate_rstd,
        .dout = tape.grad_into(out),
        .dlse = merges() ? tape.grad_into(lse) : Grad{},
        .dpartial = depth_source_grad(merges() ? tape.grad_into(partial.value) : Grad{}, partial.convs),
        .dquery = merges() ? partial.target.query->grad : Tensor(),
        .dkey_norm = merges() ? partial.target.key_norm->grad : Tensor(),
        .dgate_weight = gated ? fusion.gate.weight->grad : Tensor(),
        .dgate_scale = gated ? fusion.gate.scale->grad : Tensor(),
        .dgate_bias = gated ? fusion.gate.bias->grad : Tensor()});
  }
};

// One view as [T,D], nothing to compute.
struct OnlyViewNode final : Node {
  Var out, y;  // slots only

  std::string_view name() const override { return "only_view"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override { tape.pass_grad(y, out); }
};

DepthMerged only_view(Tape& tape, const Var& out) {
  const Var y = tape.output(out.value.reshape({out.value.dim(0), out.value.dim(2)}));
  auto node = std::make_unique<OnlyViewNode>();
  node->out.slot = out.slot;
  node->y.slot = y.slot;
  tape.record(std::move(node), {y});
  return {.y = y, .logits = {}, .gates = {}, .owned = false};
}

void check(const Var& out, const Var& lse, const DepthPartial* partial, const DepthFusion& fusion,
           const Sequences& sequences) {
  Shapes s("depth_merge");
  s(out.value, "out", "T M D");
  if (partial) {
    s(lse.value, "lse", "T M");
    STRATA_CHECK(s["T"] == sequences.tokens(), "depth_merge: ", s["T"], " tokens in ", sequences.batch,
                 " sequences of ", sequences.length);
    check_depth_source(partial->value.value, partial->convs, s["T"], s["M"], s["D"]);
    check_depth_target(partial->target, s["M"], s["D"]);
  }
  if (fusion.kind != Fusion::Gate) return;
  s.bind("MD", s["M"] * s["D"])(fusion.gate.weight->value, "gate weight", "M MD");
  s(fusion.gate.scale->value, "gate scale", "1")(fusion.gate.bias->value, "gate bias", "M");
}

}  // namespace

DepthMerged depth_merge(Tape& tape, const Var& out, const Var& lse, const DepthPartial* partial,
                        const DepthFusion& fusion, const Sequences& sequences, double eps) {
  check(out, lse, partial, fusion, sequences);
  const std::int64_t T = out.value.dim(0), M = out.value.dim(1), D = out.value.dim(2);
  if (!partial && fusion.kind == Fusion::None) return {.y = out, .logits = {}, .gates = {}, .owned = false};
  if (!partial && fusion.kind == Fusion::Mean && M == 1) return only_view(tape, out);
  const DType full = acc_of(out.value.dtype());
  auto node = std::make_unique<DepthMergeNode>();
  node->out = out;
  if (partial) {
    node->lse = lse;
    node->partial = *partial;
    node->logits = tape.empty({T, M}, full);
    node->rstd = tape.empty({T, M}, full);
  }
  node->fusion = fusion;
  node->sequences = sequences;
  node->eps = eps;
  if (fusion.kind == Fusion::Gate) {
    node->gates = tape.empty({T, M}, full);
    node->gate_rstd = tape.empty({T}, full);
  }
  const Dims dims = fusion.kind == Fusion::None ? Dims{T, M, D} : Dims{T, D};
  node->y = tape.output(tape.empty(dims, out.value.dtype()));
  node->forward(tape);
  const DepthMerged merged{.y = node->y, .logits = node->logits, .gates = node->gates, .owned = true};
  tape.record(std::move(node), {merged.y});
  return merged;
}

}  // namespace strata::ops
