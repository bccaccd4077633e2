// Every kernel call of strata as a value: the table of contents of the numerics. Fields name their shapes; a
// device runs a job through its overload of run(stream, job). T = B * S tokens, Acc = float32 (float64 for
// float64 models). A Grad that is empty is not computed. Plain views named d<weight> always accumulate
// (callers zero them once a step).
#pragma once
#include <vector>

#include "base/view.h"
#include "device/stream.h"

namespace strata::kernels {

using device::CpuStream;

// ---- elementwise and reductions ----

// y = value; y may hold integers.
struct Fill {
  static constexpr const char* kName = "fill";
  View y;
  double value = 0;
};
// y (+)= x, with conversion between floating-point types.
struct Copy {
  static constexpr const char* kName = "copy";
  ConstView x;
  View y;
  Write mode = Write::Overwrite;
};
// y = a + b.
struct Add {
  static constexpr const char* kName = "add";
  ConstView a, b;
  View y;
};
// y = a | b, side by side.
struct ConcatColumns {
  static constexpr const char* kName = "concat_columns";
  ConstView a, b;  // [T,A], [T,B]
  View y;          // [T,A+B]
};
struct SplitColumns {
  static constexpr const char* kName = "split_columns";
  ConstView dy;  // [T,A+B]
  Grad da, db;   // [T,A], [T,B]
};
// y[0] (+)= scale * sum(x), x [n] in Acc, summed in fixed chunks in float64.
struct Sum {
  static constexpr const char* kName = "sum";
  ConstView x;
  View y;  // [1] Acc
  double scale = 1;
  Write mode = Write::Overwrite;
};
// y[0] (+)= sum(x^2) in float64, y [1] Float64.
struct SumSquares {
  static constexpr const char* kName = "sum_squares";
  ConstView x;
  View y;
  Write mode = Write::Overwrite;
};

// ---- matrix products ----

// c [M,N] (+)= op(a) op(b), row-major 2-D views; op transposes where asked. Any mix of floating-point types.
struct Gemm {
  static constexpr const char* kName = "gemm";
  ConstView a, b;
  View c;
  bool transpose_a = false, transpose_b = false;
  Write mode = Write::Overwrite;
};
// Expert e owns rows offsets[e] .. offsets[e+1] of x and y: y_e = x_e w_e^T (or x_e w_e), w [E,O,I].
struct GroupedGemm {
  static constexpr const char* kName = "grouped_gemm";
  ConstView x;               // [R,I]  (R,O if transposed)
  ConstView w;               // [E,O,I]
  ConstView offsets;         // [E+1] int32, offsets[E] = R
  View y;                    // [R,O]  (R,I if transposed)
  bool w_transposed = true;  // true: y_e = x_e w_e^T (forward); false: y_e = x_e w_e (input gradient)
  Write mode = Write::Overwrite;
};
// dw_e += dy_e^T x_e. Experts without rows are left as they are.
struct GroupedGemmWeight {
  static constexpr const char* kName = "grouped_gemm_weight";
  ConstView dy;       // [R,O]
  ConstView x;        // [R,I]
  ConstView offsets;  // [E+1] int32
  View dw;            // [E,O,I] Acc
};

// A matrix for each head: y_h = x_h w_h^T (or x_h w_h), w_h = rows [begin, end) of w[h]. Dims of x_h beyond
// those that w_h takes are copied behind the result.
struct HeadLinear {
  static constexpr const char* kName = "head_linear";
  ConstView x;  // [T,H,I+P]
  ConstView w;  // [H,G,R]
  std::int64_t begin = 0, end = 0;
  bool w_transposed = true;
  View y;  // [T,H,O+P]
};

// ---- norm, activation, positions ----

// y = w * x * rstd, rstd = 1 / sqrt(mean(x^2) + eps). weight may be empty (no gain).
struct RmsNormForward {
  static constexpr const char* kName = "rms_norm";
  ConstView x;       // [T,D]
  ConstView weight;  // [D] Acc
  double eps = 0;
  View y;     // [T,D], or empty: only rstd is wanted
  View rstd;  // [T] Acc
};
struct RmsNormBackward {
  static constexpr const char* kName = "rms_norm_backward";
  ConstView dy, x;         // [T,D]
  ConstView weight, rstd;  // [D], [T]
  Grad dx;                 // [T,D]
  View dweight;            // [D] Acc
};
// y = silu(x[:, :F]) * x[:, F:].
struct SwiGluForward {
  static constexpr const char* kName = "swiglu";
  ConstView x;  // [T,2F] gate | up
  View y;       // [T,F]
};
struct SwiGluBackward {
  static constexpr const char* kName = "swiglu_backward";
  ConstView dy, x;  // [T,F], [T,2F]
  Grad dx;          // [T,2F]
};

enum class RopePairing : std::uint8_t { Interleaved, Half };
// Rotates dims [begin, end) of every head by angle (start + t % length) * theta^(-2i/(end-begin)); the rest
// is copied.
struct Rope {
  static constexpr const char* kName = "rope";
  ConstView x;  // [T,H,D]
  View y;       // [T,H,D]
  std::int64_t begin = 0, end = 0;
  std::int64_t length = 0;  // S: position = start + t % length
  std::int64_t start = 0;
  double theta = 10000;
  RopePairing pairing = RopePairing::Interleaved;
  bool inverse = false;  // backward: rotate by the negative angle
  Write mode = Write::Overwrite;
};
// The compressed key-value row of multi-head latent attention, split: latent = RMSNorm_w(x[:, :R]),
// key = rope(x[:, R:]) (interleaved pairs), one key for all heads. DeepSeek-V2, arXiv 2405.04434, eq. 9-19.
struct MlaLatentForward {
  static constexpr const char* kName = "mla_latent";
  ConstView x;       // [T,R+P]
  ConstView weight;  // [R] Acc
  double eps = 0, theta = 10000;
  std::int64_t length = 0, start = 0;  // position = start + t % length
  View latent;                         // [T,R]
  View key;                            // [T,P]
  View rstd;                           // [T] Acc
};
struct MlaLatentBackward {
  static constexpr const char* kName = "mla_latent_backward";
  ConstView dlatent, dkey;  // [T,R], [T,P]; either may be empty (zero)
  ConstView x, weight, rstd;
  double theta = 10000;
  std::int64_t length = 0;
  Grad dx;       // [T,R+P]
  View dweight;  // [R] Acc
};

// ---- attention ----

// A head-major slice of a token-major tensor: element (t, h, i) at data[t*token_stride + h*head_stride + i].
template <class ViewType>
struct BasicHeads {
  ViewType tensor;  // the whole tensor, for its dtype and data
  std::int64_t offset = 0, heads = 0, dim = 0, token_stride = 0, head_stride = 0;
};
using Heads = BasicHeads<ConstView>;
// Gradients of slices of one tensor: all slices together cover it, so one Write mode serves all.
struct HeadsGrad {
  Grad tensor;
  std::int64_t offset = 0, heads = 0, dim = 0, token_stride = 0, head_stride = 0;
};
// Causal attention inside each sequence and document; never stores S x S. Query head h reads key head h / (H
// / Hk). A key is [k | k_shared]: k_shared [T,P] is appended to every key head (MLA's rope part), or empty (P
// = 0). With sequences.past the keys of a sequence are past + length rows, the earlier ones first.
struct AttentionForward {
  static constexpr const char* kName = "attention";
  Heads q;             // H heads of dim k.dim + P
  Heads k, v;          // Hk heads
  ConstView k_shared;  // [T,P] or empty
  Sequences sequences;
  double scale = 1;
  View y;    // [T, H * v.dim]
  View lse;  // [H,T] Acc: log-sum-exp of the scaled scores
};
struct AttentionBackward {
  static constexpr const char* kName = "attention_backward";
  ConstView dy, y, lse;
  Heads q, k, v;
  ConstView k_shared;
  Sequences sequences;
  double scale = 1;
  HeadsGrad dq, dk, dv;  // dk and dv may be slices of one tensor
  Grad dk_shared;
};

// ---- embedding and loss ----

struct EmbeddingForward {
  static constexpr const char* kName = "embedding";
  ConstView ids;     // [T] int32
  ConstView weight;  // [V,D]
  View y;            // [T,D]
};
// dweight[ids[t]] += dy[t], in token order.
struct EmbeddingBackward {
  static constexpr const char* kName = "embedding_backward";
  ConstView ids, dy;
  View dweight;  // [V,D] Acc
};
// Per token: lse = logsumexp(logits), loss = lse - logits[label]; label < 0: loss 0.
struct CrossEntropyForward {
  static constexpr const char* kName = "cross_entropy";
  ConstView logits;  // [T,V] Acc
  ConstView labels;  // [T] int32
  View loss, lse;    // [T] Acc
};
// dlogits = scale * dloss[0] * (softmax(logits) - onehot(label)); 0 where label < 0. May be in place.
struct CrossEntropyBackward {
  static constexpr const char* kName = "cross_entropy_backward";
  ConstView logits, labels, lse;
  ConstView dloss;  // [1] Acc
  double scale = 1;
  View dlogits;  // [T,V] Acc or the compute type
};

// ---- mixture of experts ----

enum class Scoring : std::uint8_t { Sigmoid, Softmax };
struct RouterRule {
  Scoring scoring = Scoring::Sigmoid;
  std::int64_t top_k = 1, groups = 1, top_groups = 1;
  bool normalize = false;
  double scale = 1;
  // Already divided by the number of sequences, or tokens, of the global batch.
  double balance_coef = 0, z_coef = 0;
};
// model.md section 1 "MLP and MoE": choice by score + bias (lower index wins a tie), gates from the unbiased
// score.
struct RouterForward {
  static constexpr const char* kName = "router";
  ConstView logits;  // [T,E] Acc
  ConstView bias;    // [E] Acc, or empty
  RouterRule rule;
  std::int64_t batch = 0;  // sequences in T
  View scores;             // [T,E] Acc, before bias
  View indices;            // [T,K] int32, best choice first
  View gates;              // [T,K] Acc
  View load;               // [E] int64, accumulates
  View fraction;           // [B,E] Acc: f_e of the balance loss, zero if its coefficient is 0
  View aux;                // [1] Acc: this layer's balance loss + z-loss, scaled
};
struct RouterBackward {
  static constexpr const char* kName = "router_backward";
  ConstView dgates, daux;  // [T,K], [1]; either may be empty (zero)
  ConstView logits, scores, indices, gates, fraction;
  RouterRule rule;
  std::int64_t batch = 0;
  Grad dlogits;  // [T,E] Acc
};
// bias_e += speed * sign(mean(load) - load_e), then load = 0. DeepSeek-V3, arXiv 2412.19437, section 2.1.2.
struct RouterBiasUpdate {
  static constexpr const char* kName = "router_bias_update";
  View load;  // [E] int64
  View bias;  // [E] Acc
  double speed = 0;
};
// Sorts the T*K choices by expert, stable in (token, k). Slot t*K+k is row slot_row[slot]; row_slot is its
// inverse.
struct PlanRouting {
  static constexpr const char* kName = "plan_routing";
  ConstView indices;        // [T,K] int32
  View offsets;             // [E+1] int32
  View row_slot, slot_row;  // [T*K] int32
};
// rows[r] = x[row_slot[r] / K].
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  ConstView x;         // [T,D]
  ConstView row_slot;  // [T*K] int32
  View rows;           // [T*K,D]
};
// dx[t] (+)= sum_k drows[slot_row[t*K+k]], k ascending.
struct GatherRowsBackward {
  static constexpr const char* kName = "gather_rows_backward";
  ConstView drows, slot_row;
  Grad dx;  // [T,D]
};
// y[t] = sum_k gates[t,k] * rows[slot_row[t*K+k]], k ascending.
struct CombineRows {
  static constexpr const char* kName = "combine_rows";
  ConstView rows;      // [T*K,D]
  ConstView gates;     // [T,K] Acc
  ConstView slot_row;  // [T*K] int32
  View y;              // [T,D]
};
struct CombineRowsBackward {
  static constexpr const char* kName = "combine_rows_backward";
  ConstView dy, rows, gates, slot_row;
  Grad drows;   // [T*K,D]
  Grad dgates;  // [T,K] Acc
};

// ---- depth retrieval (AttnRes, MSAR) ----

// One source and its M views. value [T,D]: view 0 is the source, view r >= 1 the causal convolution conv[r-1]
// [D,kappa] (column = lag); without conv every view is the source itself. value [T,M,D]: view r is stream r.
struct DepthSource {
  ConstView value;
  std::vector<ConstView> conv;  // Acc
};
struct DepthSourceGrad {
  Grad dvalue;              // like value, in Acc
  std::vector<View> dconv;  // Acc
};
// What one target asks: a query per view over keys RMSNorm_w(view).
struct DepthQuery {
  ConstView query;     // [M,D] Acc
  ConstView key_norm;  // [D] Acc
};
// Phase 1: softmax over the completed sources only, per target, view and token:
// s_j = q . RMSNorm_w(v_j), lse = log sum_j exp(s_j), out = sum_j exp(s_j - lse) v_j.
struct DepthAttendForward {
  static constexpr const char* kName = "depth_attend";
  struct Target {
    DepthQuery ask;
    View out;     // [T,M,D]
    View lse;     // [T,M] Acc
    View logits;  // [N,T,M] Acc, N sources
  };
  std::vector<DepthSource> sources;
  std::vector<Target> targets;
  Sequences sequences;
  double eps = 0;
  View rstd;  // [N,T,M] Acc: 1/RMS of every view
};
// With dlse = 0 where nothing read it: ds_j = p_j (dout.v_j - dout.out + dlse), dv_j += p_j dout + ds_j
// rstd_j (u - s_j rstd_j v_j / D), u = query * key_norm; then through the convolutions.
struct DepthAttendBackward {
  static constexpr const char* kName = "depth_attend_backward";
  struct Target {
    DepthQuery ask;
    ConstView out, lse, logits;
    ConstView dout;          // [T,M,D]; empty: this target got no gradient
    ConstView dlse;          // [T,M] Acc, or empty
    View dquery, dkey_norm;  // Acc
  };
  std::vector<DepthSource> sources;
  std::vector<DepthSourceGrad> dsources;
  std::vector<Target> targets;
  Sequences sequences;
  ConstView rstd;
};
// How M views become one: not at all (y [T,M,D]), their mean, or a gate g = sigmoid(scale * W RMSNorm(flatten
// Z) + b).
enum class Fusion : std::uint8_t { None, Mean, Gate };
struct GateWeights {
  ConstView weight;  // [M, M*D] Acc
  ConstView scale;   // [1]
  ConstView bias;    // [M]
};
// Phase 2: merges the block's partial sum, weight sigmoid(s - lse), into `out`, then fuses the views.
// Without a partial source Z = out; with Fusion::Gate that alone is mHC's head mix.
struct DepthMergeForward {
  static constexpr const char* kName = "depth_merge";
  ConstView out;        // [T,M,D]
  ConstView lse;        // [T,M] Acc, unused without a partial
  DepthSource partial;  // value empty: no partial
  DepthQuery ask;       // unused without a partial
  Fusion fusion = Fusion::None;
  GateWeights gate;
  Sequences sequences;
  double eps = 0;
  View y;          // [T,D], or [T,M,D] with Fusion::None
  View logits;     // [T,M] Acc: s of the partial
  View rstd;       // [T,M] Acc: 1/RMS of the partial's views
  View gates;      // [T,M] Acc, with Fusion::Gate
  View gate_rstd;  // [T] Acc: 1/RMS of flatten Z, with Fusion::Gate
};
struct DepthMergeBackward {
  static constexpr const char* kName = "depth_merge_backward";
  ConstView dy;
  ConstView out, lse;
  DepthSource partial;
  DepthQuery ask;
  Fusion fusion = Fusion::None;
  GateWeights gate;
  Sequences sequences;
  ConstView logits, rstd, gates, gate_rstd;
  Grad dout;  // [T,M,D]
  Grad dlse;  // [T,M] Acc
  DepthSourceGrad dpartial;
  View dquery, dkey_norm;                      // Acc
  View dgate_weight, dgate_scale, dgate_bias;  // Acc
};
// Weights of all sources for display: w[r,j,t] = exp(logits_j - lse)(1 - omega), last j the partial's omega
// (if any).
struct DepthWeights {
  static constexpr const char* kName = "depth_weights";
  ConstView logits;          // [N,T,M]
  ConstView lse;             // [T,M]
  ConstView partial_logits;  // [T,M] or empty
  View weights;              // [M, N or N+1, T] Acc
};

// ---- manifold-constrained hyper-connections ----

struct HyperWeights {
  ConstView alpha_pre, alpha_post, alpha_res;  // [1] Acc
  ConstView bias_pre, bias_post;               // [n]
  ConstView bias_res;                          // [n,n]
};
// coef = sigmoid(a_pre y_pre + b_pre) | 2 sigmoid(a_post y_post + b_post) | Sinkhorn(a_res y_res + b_res),
// y = rstd * raw. Sinkhorn: exp(A - column max), `iterations` times columns then rows. arXiv 2512.24880, eq.
// 8-9.
struct HyperCoefForward {
  static constexpr const char* kName = "hyper_coef";
  ConstView raw;   // [T, 2n+n*n] Acc: phi . x, before the norm's factor
  ConstView rstd;  // [T] Acc
  HyperWeights weights;
  std::int64_t streams = 0, iterations = 20;
  View coef;  // [T, 2n+n*n] Acc: pre | post | res (row-major, row = output stream)
};
struct HyperCoefBackward {
  static constexpr const char* kName = "hyper_coef_backward";
  ConstView dcoef, raw, rstd, coef;
  HyperWeights weights;
  std::int64_t streams = 0, iterations = 20;
  View dnormed;  // [T, 2n+n*n] Acc: gradient of y = rstd * raw
  View draw;     // [T, 2n+n*n] Acc: rstd * dnormed, what phi's gradient is made of
  View dalpha_pre, dalpha_post, dalpha_res, dbias_pre, dbias_post, dbias_res;  // Acc
};
// z = sum_i pre_i X_i.
struct HyperReadForward {
  static constexpr const char* kName = "hyper_read";
  ConstView x;     // [T,n,D]
  ConstView coef;  // [T, 2n+n*n] Acc
  View z;          // [T,D]
};
struct HyperReadBackward {
  static constexpr const char* kName = "hyper_read_backward";
  ConstView dz, x, coef;
  Grad dx;     // [T,n,D]
  Grad dcoef;  // [T, 2n+n*n] Acc: only the pre part is touched; on Overwrite the rest becomes zero
};
// next_i = sum_j res_ij X_j + post_i y. x empty: next_i = post_i y.
struct HyperWriteForward {
  static constexpr const char* kName = "hyper_write";
  ConstView x;     // [T,n,D] or empty
  ConstView y;     // [T,D]
  ConstView coef;  // [T, 2n+n*n] Acc
  View next;       // [T,n,D]
};
struct HyperWriteBackward {
  static constexpr const char* kName = "hyper_write_backward";
  ConstView dnext, x, y, coef;
  Grad dx, dy;
  Grad dcoef;  // post and res parts; on Overwrite the rest becomes zero
};
// y[t,i] (+)= scale * x[t] for each stream.
struct SpreadStreams {
  static constexpr const char* kName = "spread_streams";
  ConstView x;  // [T,D]
  View y;       // [T,n,D]
  double scale = 1;
  Write mode = Write::Overwrite;
};
// y[t] (+)= scale * sum_i x[t,i].
struct SumStreams {
  static constexpr const char* kName = "sum_streams";
  ConstView x;  // [T,n,D]
  View y;       // [T,D]
  double scale = 1;
  Write mode = Write::Overwrite;
};

// ---- optimizer ----

// One bucket. w -= lr * weight_decay * w, then w -= lr * mhat / (sqrt(vhat) + eps). Loshchilov & Hutter,
// 2019.
struct AdamW {
  static constexpr const char* kName = "adamw";
  View master, m, v;  // [n] Acc
  ConstView grad;     // [n] Acc
  View value;         // [n] compute copy to refresh, or empty where it is the master
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double correction1 = 1, correction2 = 1;  // 1 - beta^step
  double grad_scale = 1;                    // clipping
};
// buf = momentum * buf + grad (buf empty: no momentum); w -= lr * (buf + weight_decay * w).
struct Sgd {
  static constexpr const char* kName = "sgd";
  View master, momentum_buffer;
  ConstView grad;
  View value;
  double lr = 0, momentum = 0, weight_decay = 0, grad_scale = 1;
};

// Two for each multiplication with its addition in the products of the model; everything else counts nothing.
// Causal attention counts the pairs that a token sees in its sequence, documents or not (kernels/flops.cpp).
double flops(const Gemm& job);
double flops(const GroupedGemm& job);
double flops(const GroupedGemmWeight& job);
double flops(const HeadLinear& job);
double flops(const AttentionForward& job);
double flops(const AttentionBackward& job);
double flops(const DepthAttendForward& job);
double flops(const DepthAttendBackward& job);
double flops(const DepthMergeForward& job);
double flops(const DepthMergeBackward& job);
double flops(const HyperReadForward& job);
double flops(const HyperReadBackward& job);
double flops(const HyperWriteForward& job);
double flops(const HyperWriteBackward& job);

// Of every job: its CPU overload, one file a topic in kernels/cpu/, and the bytes that it must move, every
// operand once, one that is added to twice (kernels/bytes.cpp).
#define STRATA_JOB(Job)                        \
  void run(CpuStream& stream, const Job& job); \
  double bytes(const Job& job);
STRATA_JOB(Fill)
STRATA_JOB(Copy)
STRATA_JOB(Add)
STRATA_JOB(Sum)
STRATA_JOB(SumSquares)
STRATA_JOB(ConcatColumns)
STRATA_JOB(SplitColumns)
STRATA_JOB(Gemm)
STRATA_JOB(GroupedGemm)
STRATA_JOB(GroupedGemmWeight)
STRATA_JOB(HeadLinear)
STRATA_JOB(RmsNormForward)
STRATA_JOB(RmsNormBackward)
STRATA_JOB(SwiGluForward)
STRATA_JOB(SwiGluBackward)
STRATA_JOB(Rope)
STRATA_JOB(MlaLatentForward)
STRATA_JOB(MlaLatentBackward)
STRATA_JOB(AttentionForward)
STRATA_JOB(AttentionBackward)
STRATA_JOB(EmbeddingForward)
STRATA_JOB(EmbeddingBackward)
STRATA_JOB(CrossEntropyForward)
STRATA_JOB(CrossEntropyBackward)
STRATA_JOB(RouterForward)
STRATA_JOB(RouterBackward)
STRATA_JOB(RouterBiasUpdate)
STRATA_JOB(PlanRouting)
STRATA_JOB(GatherRows)
STRATA_JOB(GatherRowsBackward)
STRATA_JOB(CombineRows)
STRATA_JOB(CombineRowsBackward)
STRATA_JOB(DepthAttendForward)
STRATA_JOB(DepthAttendBackward)
STRATA_JOB(DepthMergeForward)
STRATA_JOB(DepthMergeBackward)
STRATA_JOB(DepthWeights)
STRATA_JOB(HyperCoefForward)
STRATA_JOB(HyperCoefBackward)
STRATA_JOB(HyperReadForward)
STRATA_JOB(HyperReadBackward)
STRATA_JOB(HyperWriteForward)
STRATA_JOB(HyperWriteBackward)
STRATA_JOB(SpreadStreams)
STRATA_JOB(SumStreams)
STRATA_JOB(AdamW)
STRATA_JOB(Sgd)
#undef STRATA_JOB

}  // namespace strata::kernels
