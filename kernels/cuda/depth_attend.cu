// Phase 1 of the retrieval over depth: out = sum_j p_j v_j, p = softmax_j(u . v_j / RMS(v_j)), u = query *
// key_norm. A block has one view of a tile of tokens. First each warp scores sources against kTargets targets
// at once, then one warp does the softmax, then threads mix the sources by columns. The second reading of the
// sources comes from cache.
#include "kernels/cuda/depth_setup.cuh"
#include "kernels/cuda/jobs.h"
#include "kernels/cuda/reduce.cuh"

namespace strata::kernels {
namespace {

using namespace strata::cuda;

constexpr int kThreads = 128, kWarps = kThreads / 32;

template <class A>
struct Target {
  Output<A> out;
  A *lse, *logits;
};
template <class A>
struct Attend {
  Depth<A> depth;
  const Target<A>* targets;
  A* rstd;
  A* weights;  // [N, T, M, K]
  A eps;
};

// Source j against targets k .. k + kTargets - 1, by one warp; lane l has target k + l / kTokens and token
// l % kTokens.
template <int kPack, class A>
__device__ void score(const Attend<A>& p, const Tile& tile, int r, int k, int j) {
  const Depth<A>& d = p.depth;
  const DepthView<A> view = d.view(j, r);
  const int lane = int(threadIdx.x) % 32;
  A dots[32] = {}, squares[kTokens] = {};
  for (std::int64_t i = lane * kPack; i < d.width; i += 32 * kPack) {
    Pack<A, kPack> v[kTokens];
    expand(d, view, tile, i, v);
    UNROLL for (int b = 0; b < kTokens; ++b) { squares[b] += dot(v[b], v[b]); }
    UNROLL for (int n = 0; n < kTargets; ++n) {
      if (k + n < d.targets) {
        const auto u = load_pack<kPack>(d.ask(k + n, r) + i);
        UNROLL for (int b = 0; b < kTokens; ++b) { dots[n * kTokens + b] += dot(u, v[b]); }
      }
    }
  }
  const A product = warp_sum_each(dots), square = warp_sum_tokens(squares);
  const A rstd = A(1) / std::sqrt(square / A(d.width) + p.eps);
  const int target = k + lane / kTokens, b = lane % kTokens;
  if (b >= tile.count) return;
  const std::int64_t at = d.at(j, tile.first + b, r);
  if (lane < kTokens) p.rstd[at] = rstd;
  if (target < d.targets) p.targets[target].logits[at] = product * rstd;
}

// Logits to weights and their log-sum-exp, for one target and token.
template <class A>
__device__ void softmax(const Attend<A>& p, std::int64_t t, int r, int k) {
  const Depth<A>& d = p.depth;
  const A* logits = p.targets[k].logits;
  A highest = logits[d.at(0, t, r)], total = 0;
  for (int j = 1; j < d.sources; ++j) highest = std::max(highest, logits[d.at(j, t, r)]);
  for (int j = 0; j < d.sources; ++j) total += std::exp(logits[d.at(j, t, r)] - highest);
  for (int j = 0; j < d.sources; ++j)
    p.weights[d.at(j, t, r) * d.targets + k] = std::exp(logits[d.at(j, t, r)] - highest) / total;
  p.targets[k].lse[d.at(0, t, r)] = highest + std::log(total);
}

// Columns i .. i + kPack - 1 of targets k .. end - 1, of which there are kTogether at most.
template <int kPack, int kTogether, class A>
__device__ void mix(const Attend<A>& p, const Tile& tile, int r, int k, int end, std::int64_t i) {
  const Depth<A>& d = p.depth;
  Pack<A, kPack> sums[kTogether][kTokens];
  UNROLL for (int n = 0; n < kTogether; ++n) {
    UNROLL for (int b = 0; b < kTokens; ++b) { sums[n][b] = zeros<A, kPack>(); }
  }
  for (int j = 0; j < d.sources; ++j) {
    Pack<A, kPack> v[kTokens];
    expand(d, d.view(j, r), tile, i, v);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      const A* weights = p.weights + d.at(j, tile.first + b, r) * d.targets + k;
      UNROLL for (int n = 0; n < kTogether; ++n) {
        if (k + n < end && b < tile.count) add(sums[n][b], weights[n], v[b]);
      }
    }
  }
  UNROLL for (int n = 0; n < kTogether; ++n) {
    UNROLL for (int b = 0; b < kTokens; ++b) {
      if (k + n < end && b < tile.count)
        store(p.targets[k + n].out, d.row(tile.first + b, r) + i, sums[n][b]);
    }
  }
}

template <class A, int kPack>
__global__ void __launch_bounds__(kThreads) attend_kernel(Attend<A> p) {
  constexpr int kTogether = kTargets / 2;  // more would not fit into registers
  const Depth<A>& d = p.depth;
  const int r = int(blockIdx.x) % d.views, thread = int(threadIdx.x);
  const Tile tile(blockIdx.x / d.views, 0, d.tokens, d.length);
  for (int k = 0; k < d.targets; k += kTargets) {
    for (int j = thread / 32; j < d.sources; j += kWarps) score<kPack>(p, tile, r, k, j);
    __syncthreads();
    const int target = k + thread / kTokens, b = thread % kTokens;
    if (thread < 32 && target < d.targets && b < tile.count) softmax(p, tile.first + b, r, target);
    __syncthreads();
    for (std::int64_t i = thread * kPack; i < d.width; i += kThreads * kPack)
      for (int n = k; n < d.targets && n < k + kTargets; n += kTogether)
        mix<kPack, kTogether>(p, tile, r, n, d.targets, i);
  }
}

template <class A>
void attend(CudaStream& stream, const DepthAttendForward& job) {
  const View& out = job.targets.at(0).out;
  STRATA_CHECK(out.dims.rank == 3, "depth_attend: out is ", out.dims.text(), ", not [T, M, D]");
  const std::int64_t T = out.dims[0], M = out.dims[1];
  DepthSetup<A> setup(job.kName, out.dims, job.sequences);
  const std::int64_t N = std::int64_t(job.sources.size()), K = std::int64_t(job.targets.size());
  STRATA_CHECK(N > 0, "depth_attend: no sources");
  for (const DepthSource& s : job.sources) setup.add_source(s, job.sequences);
  Attend<A> p{{}, nullptr, setup.operands.full(job.rstd, {N, T, M}, "rstd"), nullptr, A(job.eps)};
  std::vector<Target<A>> targets;
  for (const DepthAttendForward::Target& t : job.targets) {
    setup.add_ask(t.ask);
    targets.push_back({setup.operands.output(t.out, out.dims, "out"),
                       setup.operands.full(t.lse, {T, M}, "lse"),
                       setup.operands.full(t.logits, {N, T, M}, "logits")});
  }
  if (T == 0) return;
  Target<A>* table = nullptr;
  lay_out(stream, [&](ScratchPieces& pieces) {
    setup.take(pieces);
    table = pieces.take<Target<A>>(K);
    p.weights = pieces.take<A>(N * T * M * K);
  });
  setup.put(stream.handle());
  put_table(stream.handle(), targets, table);
  p.depth = setup.depth();
  p.targets = table;
  setup.operands.with_packs([&]<int kPack>() {
    launch(attend_kernel<A, kPack>,
           {blocks_for((T + kTokens - 1) / kTokens * M), kThreads, 0, stream.handle()}, p);
  });
}

}  // namespace

void run(CudaStream& stream, const DepthAttendForward& job) {
  for_acc(acc_of(job.targets.at(0).out.dtype), [&]<class A>() { attend<A>(stream, job); });
}

}  // namespace strata::kernels
