// Backward of phase 2. Through the fusion to dZ; then dout = (1 - omega) dZ, ds = omega (1 - omega) dZ . (v -
// o), dlse = -ds, dv = omega dZ + ds rho (u - s rho v / D), du = ds rho v, and the partial's views back to
// the partial. The gate, e = dlogit * scale / RMS(Z): dZ = sum_g e_g W_g - Z (sum_g e_g W_g . Z) / (MD
// RMS^2), dW_g = e_g Z. What belongs to a token is made first (depth_merge_factors.cuh); what remains goes by
// columns, with dZ made anew each time.
#include "kernels/cuda/chunks.cuh"
#include "kernels/cuda/depth_merge_factors.cuh"
#include "kernels/cuda/depth_merge_setup.cuh"
#include "kernels/cuda/depth_views_grad.cuh"
#include "kernels/cuda/jobs.h"

namespace strata::kernels {
namespace {

using namespace strata::cuda;

template <class A, int kPack>
__global__ void __launch_bounds__(kMergeThreads) dout_kernel(MergeBackward<A> p) {
  const Depth<A>& d = p.merge.depth;
  const int r = int(blockIdx.x) % d.views;
  const Tile tile(blockIdx.x / d.views, 0, d.tokens, d.length);
  const std::int64_t i = (std::int64_t(blockIdx.y) * kMergeThreads + threadIdx.x) * kPack;
  if (i >= d.width) return;
  Pack<A, kPack> dz[kTokens];
  fused_grad(p, tile, r, i, dz);
  UNROLL for (int b = 0; b < kTokens; ++b) {
    if (b < tile.count) {
      const A keep = p.merge.merges() ? p.merge.keep(d.at(0, tile.first + b, r)) : A(1);
      UNROLL for (int n = 0; n < kPack; ++n) { dz[b].at[n] *= keep; }
      store(p.dout, d.row(tile.first + b, r) + i, dz[b]);
    }
  }
}

template <class A, int kPack>
__global__ void __launch_bounds__(kMergeThreads) dviews_kernel(MergeBackward<A> p, Panel<A> panel) {
  const Depth<A>& d = p.merge.depth;
  const int r = int(blockIdx.x) % d.views;
  const Tile tile(blockIdx.x / d.views, panel.begin, panel.begin + panel.rows, d.length);
  const std::int64_t i = (std::int64_t(blockIdx.y) * kMergeThreads + threadIdx.x) * kPack;
  if (i >= d.width) return;
  Pack<A, kPack> dz[kTokens], v[kTokens];
  fused_grad(p, tile, r, i, dz);
  expand(d, d.view(0, r), tile, i, v);
  const auto u = load_pack<kPack>(d.ask(0, r) + i);
  UNROLL for (int b = 0; b < kTokens; ++b) {
    if (b < tile.count) {
      const std::int64_t at = d.at(0, tile.first + b, r);
      auto dv = zeros<A, kPack>();
      add(dv, p.merge.omega(at), dz[b]);
      add(dv, p.pushes[at], u);
      add(dv, -p.pulls[at], v[b]);
      store_pack(panel.row(d, 0, r, tile.first + b) + i, dv);
    }
  }
}

// Over one chunk of tokens: dasks [chunk, M, D] of the query, and dgate [chunk, M, M D], kTargets gates a
// block.
template <class A, int kPack>
__global__ void __launch_bounds__(kMergeThreads)
    weights_grad_kernel(MergeBackward<A> p, TokenChunks chunks, A* dasks, A* dgate) {
  const Depth<A>& d = p.merge.depth;
  const int r = int(blockIdx.x) % d.views, g = int(blockIdx.z) * kTargets;
  const std::int64_t chunk = blockIdx.x / d.views;
  const std::int64_t i = (std::int64_t(blockIdx.y) * kMergeThreads + threadIdx.x) * kPack;
  if (i >= d.width) return;
  const bool asks = p.merge.merges() && g == 0, gates = p.merge.fusion == Fusion::Gate;
  auto dask = zeros<A, kPack>();
  Pack<A, kPack> sums[kTargets];
  UNROLL for (int n = 0; n < kTargets; ++n) { sums[n] = zeros<A, kPack>(); }
  const std::int64_t begin = chunks.begin(chunk), end = chunks.end(chunk);
  for (std::int64_t number = 0; begin + number * kTokens < end; ++number) {
    const Tile tile(number, begin, end, d.length);
    Pack<A, kPack> x[kTokens];
    if (asks) {
      expand(d, d.view(0, r), tile, i, x);
      UNROLL for (int b = 0; b < kTokens; ++b) {
        if (b < tile.count) add(dask, p.pushes[d.at(0, tile.first + b, r)], x[b]);
      }
    }
    if (gates) {
      merged(p.merge, tile, r, i, x);
      UNROLL for (int b = 0; b < kTokens; ++b) {
        UNROLL for (int n = 0; n < kTargets; ++n) {
          if (g + n < d.views && b < tile.count)
            add(sums[n], p.pushes_z[d.at(0, tile.first + b, g + n)], x[b]);
        }
      }
    }
  }
  if (asks) store_pack(dasks + (chunk * d.views + r) * d.width + i, dask);
  UNROLL for (int n = 0; n < kTargets; ++n) {
    if (gates && g + n < d.views)
      store_pack(dgate + ((chunk * d.views + g + n) * d.views + r) * d.width + i, sums[n]);
  }
}

// Working memory of the chunks' sums, and their targets.
template <class A>
struct WeightGrads {
  A *dask_parts, *dask, *dgate_parts, *dlogit_parts;
  A *gate, *scale, *bias;  // of the job, or nobody wants them
};

template <class A>
void add_weight_grads(CudaStream& stream, const DepthSetup<A>& setup, const MergeBackward<A>& p,
                      const TokenChunks& chunks, const WeightGrads<A>& w) {
  const Depth<A>& d = p.merge.depth;
  const std::int64_t M = d.views, each = M * d.width;
  const StreamHandle to = stream.handle();
  if (p.merge.merges()) {
    sum_chunks(to, w.dask_parts, chunks.count, each, each, w.dask, false);
    setup.add_query_grads(to, w.dask);
  }
  if (p.merge.fusion != Fusion::Gate) return;
  launch(sum_tokens_kernel<A>, {dim3(blocks_for(M + 1, 32), unsigned(chunks.count)), 32, 0, to}, p.dlogits,
         chunks, M + 1, w.dlogit_parts);
  if (w.gate) sum_chunks(to, w.dgate_parts, chunks.count, M * each, M * each, w.gate, true);
  if (w.bias) sum_chunks(to, w.dlogit_parts, chunks.count, M + 1, M, w.bias, true);
  if (w.scale) sum_chunks(to, w.dlogit_parts + M, chunks.count, M + 1, 1, w.scale, true);
}

template <class A>
void launch_all(CudaStream& stream, const DepthSetup<A>& setup, const DepthViewsGrad<A>& views,
                const MergeBackward<A>& p, const WeightGrads<A>& w) {
  const Depth<A>& d = p.merge.depth;
  const TokenChunks chunks(d.tokens);
  const auto tiles = [&](std::int64_t n) { return blocks_for((n + kTokens - 1) / kTokens * d.views); };
  const StreamHandle to = stream.handle();
  setup.operands.with_packs([&]<int kPack>() {
    const unsigned columns = blocks_for(d.width, kMergeThreads * kPack);
    launch(merge_factors_kernel<A, kPack>,
           {blocks_for(d.tokens, kTokens), kMergeThreads, sizeof(GateScratch<A>), to}, p);
    if (p.dout.data) launch(dout_kernel<A, kPack>, {dim3(tiles(d.tokens), columns), kMergeThreads, 0, to}, p);
    launch(weights_grad_kernel<A, kPack>,
           {dim3(unsigned(chunks.count * d.views), columns, blocks_for(d.views, kTargets)), kMergeThreads, 0,
            to},
           p, chunks, w.dask_parts, w.dgate_parts);
    views.template run<kPack>(to, [&](const Panel<A>& panel) {
      launch(dviews_kernel<A, kPack>, {dim3(tiles(panel.rows), columns), kMergeThreads, 0, to}, p, panel);
    });
  });
  add_weight_grads(stream, setup, p, chunks, w);
}

template <class A>
void backward(CudaStream& stream, const DepthMergeBackward& job) {
  const Dims& dims = job.out.dims;
  STRATA_CHECK(dims.rank == 3, "depth_merge_backward: out is ", dims.text(), ", not [T, M, D]");
  const std::int64_t T = dims[0], M = dims[1], D = dims[2], C = TokenChunks(T).count;
  DepthSetup<A> setup(job.kName, dims, job.sequences);
  DepthViewsGrad<A> views(setup);
  Operands<A>& operands = setup.operands;
  MergeBackward<A> p{};
  WeightGrads<A> w{};
  if (job.partial.value) {
    views.add_source(job.partial, job.dpartial, job.sequences);
    setup.add_ask(job.ask, job.dquery, job.dkey_norm);
    p.rstd = operands.full(job.rstd, {T, M}, "rstd");
    p.dlse = operands.output(job.dlse, {T, M}, "dlse");
  }
  p.merge = merge_operands(setup, job);
  p.merge.logits = operands.full(job.logits, {T, M}, "logits");
  p.dy = operands.input(job.dy, fused_dims(dims, job.fusion), "dy");
  p.gates = operands.full(job.gates, {T, M}, "gates");
  p.gate_rstd = operands.full(job.gate_rstd, {T}, "gate_rstd");
  p.dout = operands.output(job.dout, dims, "dout");
  w.gate = operands.full(job.dgate_weight, {M, M * D}, "dgate_weight");
  w.scale = operands.full(job.dgate_scale, {1}, "dgate_scale");
  w.bias = operands.full(job.dgate_bias, {M}, "dgate_bias");
  if (T == 0) return;
  const bool gated = job.fusion == Fusion::Gate;
  lay_out(stream, [&](ScratchPieces& pieces) {
    setup.take(pieces);
    views.take(pieces);
    for (A** each : {&p.dgates, &p.pushes_z, &p.pushes, &p.pulls}) *each = pieces.take<A>(T * M);
    p.pulls_z = pieces.take<A>(T);
    p.dlogits = pieces.take<A>(T * (M + 1));
    w.dask_parts = pieces.take<A>(C * M * D);
    w.dask = pieces.take<A>(M * D);
    w.dgate_parts = pieces.take<A>(gated ? C * M * M * D : 0);
    w.dlogit_parts = pieces.take<A>(C * (M + 1));
  });
  setup.put(stream.handle());
  p.merge.depth = setup.depth();
  launch_all(stream, setup, views, p, w);
}

}  // namespace

void run(CudaStream& stream, const DepthMergeBackward& job) {
  for_acc(acc_of(job.out.dtype), [&]<class A>() { backward<A>(stream, job); });
}

}  // namespace strata::kernels
