// Phase 2 of the retrieval over depth: the partial sum joins with weight omega = sigmoid(s - lse), then the
// views become one: their mean, or sum_r g_r Z_r, g = sigmoid(scale * W Z / RMS(Z) + bias). A block has a
// tile of tokens: a warp a view for the scores, then threads by columns.
#include "kernels/cuda/depth_merge_setup.cuh"
#include "kernels/cuda/jobs.h"

namespace strata::kernels {
namespace {

using namespace strata::cuda;

template <class A>
struct MergeForward {
  Merge<A> merge;
  A *logits, *rstd;  // [T, M]; logits are merge.logits
  A *gates, *gate_rstd;
  Output<A> y;
  A eps;
};

// Score of the partial's view r, by one warp.
template <int kPack, class A>
__device__ void score(const MergeForward<A>& p, const Tile& tile, int r) {
  const Depth<A>& d = p.merge.depth;
  const DepthView<A> view = d.view(0, r);
  const int lane = int(threadIdx.x) % 32;
  A dots[kTokens] = {}, squares[kTokens] = {};
  for (std::int64_t i = lane * kPack; i < d.width; i += 32 * kPack) {
    Pack<A, kPack> v[kTokens];
    expand(d, view, tile, i, v);
    const auto u = load_pack<kPack>(d.ask(0, r) + i);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      dots[b] += dot(u, v[b]);
      squares[b] += dot(v[b], v[b]);
    }
  }
  const A product = warp_sum_tokens(dots), square = warp_sum_tokens(squares);
  if (lane >= tile.count) return;
  const A rstd = A(1) / std::sqrt(square / A(d.width) + p.eps);
  const std::int64_t at = d.at(0, tile.first + lane, r);
  p.rstd[at] = rstd;
  p.logits[at] = product * rstd;
}

// The first warp stores gates g .. g + kTargets - 1.
template <class A>
__device__ void store_gates(const MergeForward<A>& p, const Tile& tile, int g, const GateSums<A>& sums) {
  const Depth<A>& d = p.merge.depth;
  const int thread = int(threadIdx.x), gate = g + thread / kTokens, b = thread % kTokens;
  if (thread >= 32 || gate >= d.views || b >= tile.count) return;
  const A rstd = A(1) / std::sqrt(sums.square / A(d.views * d.width) + p.eps);
  p.gates[d.at(0, tile.first + b, gate)] = sigmoid(*p.merge.scale * sums.product * rstd + p.merge.bias[gate]);
  if (gate == 0) p.gate_rstd[tile.first + b] = rstd;
}

// Columns i .. i + kPack - 1 of y.
template <int kPack, class A>
__device__ void fuse(const MergeForward<A>& p, const Tile& tile, std::int64_t i) {
  const Depth<A>& d = p.merge.depth;
  const Fusion fusion = p.merge.fusion;
  Pack<A, kPack> y[kTokens];
  UNROLL for (int b = 0; b < kTokens; ++b) { y[b] = zeros<A, kPack>(); }
  for (int r = 0; r < d.views; ++r) {
    Pack<A, kPack> z[kTokens];
    merged(p.merge, tile, r, i, z);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      if (b < tile.count) {
        const std::int64_t t = tile.first + b;
        if (fusion == Fusion::None)
          store(p.y, d.row(t, r) + i, z[b]);
        else
          add(y[b], fusion == Fusion::Gate ? p.gates[d.at(0, t, r)] : A(1) / A(d.views), z[b]);
      }
    }
  }
  if (fusion == Fusion::None) return;
  UNROLL for (int b = 0; b < kTokens; ++b) {
    if (b < tile.count) store(p.y, (tile.first + b) * d.width + i, y[b]);
  }
}

template <class A, int kPack>
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(MergeForward<A> p) {
  auto& scratch = shared<GateScratch<A>>();
  const Depth<A>& d = p.merge.depth;
  const Tile tile(blockIdx.x, 0, d.tokens, d.length);
  if (p.merge.merges())
    for (int r = int(threadIdx.x) / 32; r < d.views; r += kMergeWarps) score<kPack>(p, tile, r);
  __syncthreads();
  for (int g = 0; p.merge.fusion == Fusion::Gate && g < d.views; g += kTargets)
    store_gates(p, tile, g, gate_products<kPack>(p.merge, tile, g, scratch));
  __syncthreads();
  for (std::int64_t i = std::int64_t(threadIdx.x) * kPack; i < d.width; i += kMergeThreads * kPack)
    fuse<kPack>(p, tile, i);
}

template <class A>
void merge(CudaStream& stream, const DepthMergeForward& job) {
  const Dims& dims = job.out.dims;
  STRATA_CHECK(dims.rank == 3, "depth_merge: out is ", dims.text(), ", not [T, M, D]");
  const std::int64_t T = dims[0], M = dims[1];
  DepthSetup<A> setup(job.kName, dims, job.sequences);
  Operands<A>& operands = setup.operands;
  MergeForward<A> p{};
  if (job.partial.value) {
    setup.add_source(job.partial, job.sequences);
    setup.add_ask(job.ask);
    p.logits = operands.full(job.logits, {T, M}, "logits");
    p.rstd = operands.full(job.rstd, {T, M}, "rstd");
  }
  p.merge = merge_operands(setup, job);
  p.merge.logits = p.logits;
  p.gates = operands.full(job.gates, {T, M}, "gates");
  p.gate_rstd = operands.full(job.gate_rstd, {T}, "gate_rstd");
  p.y = operands.output(job.y, fused_dims(dims, job.fusion), "y");
  p.eps = A(job.eps);
  if (T == 0) return;
  lay_out(stream, [&](ScratchPieces& pieces) { setup.take(pieces); });
  setup.put(stream.handle());
  p.merge.depth = setup.depth();
  operands.with_packs([&]<int kPack>() {
    launch(merge_kernel<A, kPack>,
           {blocks_for(T, kTokens), kMergeThreads, sizeof(GateScratch<A>), stream.handle()}, p);
  });
}

}  // namespace

void run(CudaStream& stream, const DepthMergeForward& job) {
  for_acc(acc_of(job.out.dtype), [&]<class A>() { merge<A>(stream, job); });
}

}  // namespace strata::kernels
