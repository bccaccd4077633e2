// The bytes that a job must move: every operand once, one that is added to twice. From the sizes alone; rows
// that are looked up count as many as are asked for.
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

double of(const ConstView& v) { return v ? double(v.bytes()) : 0; }
double of(const View& v) { return of(ConstView(v)); }
double added(const View& v, Write mode) { return (mode == Write::Accumulate ? 2 : 1) * of(v); }
double added(const View& v) { return added(v, Write::Accumulate); }
double of(const Grad& g) { return added(g.view, g.mode); }

double heads(const ConstView& tensor, std::int64_t heads, std::int64_t dim) {
  return tensor ? double(tensor.dims[0] * heads * dim * size_of(tensor.dtype)) : 0;
}
double of(const Heads& h) { return heads(h.tensor, h.heads, h.dim); }
double of(const HeadsGrad& h) {
  return (h.tensor.mode == Write::Accumulate ? 2 : 1) * heads(h.tensor.view, h.heads, h.dim);
}

double of(const DepthSource& s) {
  double n = of(s.value);
  for (const ConstView& conv : s.conv) n += of(conv);
  return n;
}
double of(const DepthSourceGrad& s) {
  double n = of(s.dvalue);
  for (const View& conv : s.dconv) n += added(conv);
  return n;
}
double of(const DepthQuery& q) { return of(q.query) + of(q.key_norm); }
double of(const GateWeights& g) { return of(g.weight) + of(g.scale) + of(g.bias); }
double of(const HyperWeights& w) {
  return of(w.alpha_pre) + of(w.alpha_post) + of(w.alpha_res) + of(w.bias_pre) + of(w.bias_post) +
         of(w.bias_res);
}
template <class T>
double of(const std::vector<T>& all) {
  double n = 0;
  for (const T& one : all) n += of(one);
  return n;
}

template <class... Operands>
double sum(const Operands&... operands) {
  return (0.0 + ... + of(operands));
}
template <class... Views>
double sum_added(const Views&... views) {
  return (0.0 + ... + added(views));
}

}  // namespace

double bytes(const Fill& j) { return of(j.y); }
double bytes(const Copy& j) { return of(j.x) + added(j.y, j.mode); }
double bytes(const Add& j) { return sum(j.a, j.b, j.y); }
double bytes(const Sum& j) { return of(j.x); }
double bytes(const SumSquares& j) { return of(j.x); }
double bytes(const ConcatColumns& j) { return sum(j.a, j.b, j.y); }
double bytes(const SplitColumns& j) { return sum(j.dy, j.da, j.db); }
double bytes(const Gemm& j) { return sum(j.a, j.b) + added(j.c, j.mode); }
double bytes(const GroupedGemm& j) { return sum(j.x, j.w) + added(j.y, j.mode); }
double bytes(const GroupedGemmWeight& j) { return sum(j.dy, j.x) + added(j.dw); }
double bytes(const HeadLinear& j) { return sum(j.x, j.w, j.y); }
double bytes(const RmsNormForward& j) { return sum(j.x, j.weight, j.y, j.rstd); }
double bytes(const RmsNormBackward& j) { return sum(j.dy, j.x, j.weight, j.rstd, j.dx) + added(j.dweight); }
double bytes(const SwiGluForward& j) { return sum(j.x, j.y); }
double bytes(const SwiGluBackward& j) { return sum(j.dy, j.x, j.dx); }
double bytes(const Rope& j) { return of(j.x) + added(j.y, j.mode); }
double bytes(const MlaLatentForward& j) { return sum(j.x, j.weight, j.latent, j.key, j.rstd); }
double bytes(const MlaLatentBackward& j) {
  return sum(j.dlatent, j.dkey, j.x, j.weight, j.rstd, j.dx) + added(j.dweight);
}
double bytes(const AttentionForward& j) { return sum(j.q, j.k, j.v, j.k_shared, j.y, j.lse); }
double bytes(const AttentionBackward& j) {
  return sum(j.dy, j.y, j.lse, j.q, j.k, j.v, j.k_shared, j.dq, j.dk, j.dv, j.dk_shared);
}
double bytes(const EmbeddingForward& j) { return of(j.ids) + 2 * of(j.y); }
double bytes(const EmbeddingBackward& j) { return of(j.ids) + 3 * of(j.dy); }
double bytes(const CrossEntropyForward& j) { return sum(j.logits, j.labels, j.loss, j.lse); }
double bytes(const CrossEntropyBackward& j) { return sum(j.logits, j.labels, j.lse, j.dlogits); }
double bytes(const RouterForward& j) {
  return sum(j.logits, j.bias, j.scores, j.indices, j.gates, j.fraction) + added(j.load);
}
double bytes(const RouterBackward& j) {
  return sum(j.dgates, j.logits, j.scores, j.indices, j.gates, j.fraction, j.dlogits);
}
double bytes(const RouterBiasUpdate& j) { return sum_added(j.load, j.bias); }
double bytes(const PlanRouting& j) { return sum(j.indices, j.offsets, j.row_slot, j.slot_row); }
double bytes(const GatherRows& j) { return sum(j.x, j.row_slot, j.rows); }
double bytes(const GatherRowsBackward& j) { return sum(j.drows, j.slot_row, j.dx); }
double bytes(const CombineRows& j) { return sum(j.rows, j.gates, j.slot_row, j.y); }
double bytes(const CombineRowsBackward& j) {
  return sum(j.dy, j.rows, j.gates, j.slot_row, j.drows, j.dgates);
}
double bytes(const DepthAttendForward& j) {
  double n = sum(j.sources, j.rstd);
  for (const auto& t : j.targets) n += sum(t.ask, t.out, t.lse, t.logits);
  return n;
}
double bytes(const DepthAttendBackward& j) {
  double n = sum(j.sources, j.dsources, j.rstd);
  for (const auto& t : j.targets)
    if (t.dout) n += sum(t.ask, t.out, t.lse, t.logits, t.dout, t.dlse) + sum_added(t.dquery, t.dkey_norm);
  return n;
}
double bytes(const DepthMergeForward& j) {
  return sum(j.out, j.lse, j.partial, j.ask, j.gate, j.y, j.logits, j.rstd, j.gates, j.gate_rstd);
}
double bytes(const DepthMergeBackward& j) {
  return sum(j.dy, j.out, j.lse, j.partial, j.ask, j.gate, j.logits, j.rstd, j.gates, j.gate_rstd, j.dout,
             j.dlse, j.dpartial) +
         sum_added(j.dquery, j.dkey_norm, j.dgate_weight, j.dgate_scale, j.dgate_bias);
}
double bytes(const DepthWeights& j) { return sum(j.logits, j.lse, j.partial_logits, j.weights); }
double bytes(const HyperCoefForward& j) { return sum(j.raw, j.rstd, j.weights, j.coef); }
double bytes(const HyperCoefBackward& j) {
  return sum(j.dcoef, j.raw, j.rstd, j.coef, j.weights, j.dnormed, j.draw) +
         sum_added(j.dalpha_pre, j.dalpha_post, j.dalpha_res, j.dbias_pre, j.dbias_post, j.dbias_res);
}
double bytes(const HyperReadForward& j) { return sum(j.x, j.coef, j.z); }
double bytes(const HyperReadBackward& j) { return sum(j.dz, j.x, j.coef, j.dx, j.dcoef); }
double bytes(const HyperWriteForward& j) { return sum(j.x, j.y, j.coef, j.next); }
double bytes(const HyperWriteBackward& j) { return sum(j.dnext, j.x, j.y, j.coef, j.dx, j.dy, j.dcoef); }
double bytes(const SpreadStreams& j) { return of(j.x) + added(j.y, j.mode); }
double bytes(const SumStreams& j) { return of(j.x) + added(j.y, j.mode); }
double bytes(const AdamW& j) { return sum_added(j.master, j.m, j.v) + sum(j.grad, j.value); }
double bytes(const Sgd& j) { return sum_added(j.master, j.momentum_buffer) + sum(j.grad, j.value); }

}  // namespace strata::kernels
