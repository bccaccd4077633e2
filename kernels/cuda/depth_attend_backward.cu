// Backward of phase 1: with p_j = exp(s_j - lse), ds_j = p_j (dout . v_j - dout . out + dlse), dv_j = sum_k
// p_j dout + ds_j rho_j u - ds_j s_j rho_j^2 v_j / D, du = sum_j ds_j rho_j v_j. The factors of all these are
// made first, a warp a source as in the forward pass; what remains are sums by columns.
#include "kernels/cuda/chunks.cuh"
#include "kernels/cuda/depth_views_grad.cuh"
#include "kernels/cuda/jobs.h"
#include "kernels/cuda/reduce.cuh"

namespace strata::kernels {
namespace {

using namespace strata::cuda;

constexpr int kThreads = 128, kWarps = kThreads / 32;

template <class A>
struct Target {
  Input<A> out, dout;  // dout may be absent
  const A *lse, *logits, *dlse;
};
template <class A>
struct AttendBackward {
  Depth<A> depth;
  const Target<A>* targets;
  const A* rstd;
  A *weights, *pushes;  // [N, T, M, K]: p_j, ds_j rho_j
  A* pulls;             // [N, T, M]: the factor of v_j in its own gradient, summed over targets
};

template <class A>
struct FactorScratch {
  A level[32];  // dout . out - dlse, by target and token
};

template <int kPack, class A>
__device__ __forceinline__ Pack<A, kPack> dout_of(const AttendBackward<A>& p, int k, const Tile& tile, int b,
                                                  int r, std::int64_t i) {
  const Input<A> dout = p.targets[k].dout;
  if (!dout.data || b >= tile.count) return zeros<A, kPack>();
  return load<kPack>(dout, p.depth.row(tile.first + b, r) + i);
}

// dout . out - dlse of target k; lane b has token b, by one warp.
template <int kPack, class A>
__device__ A level_of(const AttendBackward<A>& p, const Tile& tile, int r, int k) {
  const Depth<A>& d = p.depth;
  const Target<A> target = p.targets[k];
  const int lane = int(threadIdx.x) % 32, token = lane % kTokens;
  A dots[kTokens] = {};
  for (std::int64_t i = lane * kPack; target.dout.data && i < d.width; i += 32 * kPack) {
    UNROLL for (int b = 0; b < kTokens; ++b) {
      if (b < tile.count)
        dots[b] +=
            dot(dout_of<kPack>(p, k, tile, b, r, i), load<kPack>(target.out, d.row(tile.first + b, r) + i));
    }
  }
  const A dlse = target.dlse && token < tile.count ? target.dlse[d.at(0, tile.first + token, r)] : A(0);
  return warp_sum_tokens(dots) - dlse;
}

// Factors of source j and targets k .. k + kTargets - 1, by one warp; lane l has target k + l / kTokens and
// token l % kTokens.
template <int kPack, class A>
__device__ void factors(const AttendBackward<A>& p, const Tile& tile, int r, int k, int j, A level) {
  const Depth<A>& d = p.depth;
  const DepthView<A> view = d.view(j, r);
  const int lane = int(threadIdx.x) % 32;
  A dots[32] = {};
  for (std::int64_t i = lane * kPack; i < d.width; i += 32 * kPack) {
    Pack<A, kPack> v[kTokens];
    expand(d, view, tile, i, v);
    UNROLL for (int n = 0; n < kTargets; ++n) {
      UNROLL for (int b = 0; b < kTokens; ++b) {
        if (k + n < d.targets) dots[n * kTokens + b] += dot(dout_of<kPack>(p, k + n, tile, b, r, i), v[b]);
      }
    }
  }
  const A product = warp_sum_each(dots);
  const int target = k + lane / kTokens, b = lane % kTokens;
  const std::int64_t at = d.at(j, tile.first + b, r);
  A pull = 0;
  if (target < d.targets && b < tile.count) {
    const A logit = p.targets[target].logits[at], rstd = p.rstd[at];
    const A weight = std::exp(logit - p.targets[target].lse[d.at(0, tile.first + b, r)]);
    const A push = weight * (product - level) * rstd;
    p.weights[at * d.targets + target] = weight;
    p.pushes[at * d.targets + target] = push;
    pull = -push * logit * rstd / A(d.width);
  }
  pull = warp_sum_targets(pull);
  if (lane < tile.count) p.pulls[at] += pull;
}

template <class A, int kPack>
__global__ void __launch_bounds__(kThreads) factors_kernel(AttendBackward<A> p) {
  auto& scratch = shared<FactorScratch<A>>();
  const Depth<A>& d = p.depth;
  const int r = int(blockIdx.x) % d.views, warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const Tile tile(blockIdx.x / d.views, 0, d.tokens, d.length);
  for (int k = 0; k < d.targets; k += kTargets) {
    for (int n = warp; n < kTargets && k + n < d.targets; n += kWarps) {
      const A level = level_of<kPack>(p, tile, r, k + n);
      if (lane < kTokens) scratch.level[n * kTokens + lane] = level;
    }
    __syncthreads();
    for (int j = warp; j < d.sources; j += kWarps) factors<kPack>(p, tile, r, k, j, scratch.level[lane]);
    __syncthreads();
  }
}

// Gradients of the views: a thread has kPack columns of one view of a tile, of all sources, so that what it
// reads of dout stays in the first-level cache.
template <class A, int kPack>
__global__ void __launch_bounds__(kThreads) dviews_kernel(AttendBackward<A> p, Panel<A> panel) {
  const Depth<A>& d = p.depth;
  const int r = int(blockIdx.x) % d.views;
  const Tile tile(blockIdx.x / d.views, panel.begin, panel.begin + panel.rows, d.length);
  const std::int64_t i = (std::int64_t(blockIdx.y) * kThreads + threadIdx.x) * kPack;
  if (i >= d.width) return;
  for (int j = 0; j < d.sources; ++j) {
    Pack<A, kPack> dv[kTokens];
    expand(d, d.view(j, r), tile, i, dv);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      const A pull = b < tile.count ? p.pulls[d.at(j, tile.first + b, r)] : A(0);
      UNROLL for (int n = 0; n < kPack; ++n) { dv[b].at[n] *= pull; }
    }
    for (int k = 0; k < d.targets; ++k) {
      const auto u = load_pack<kPack>(d.ask(k, r) + i);
      UNROLL for (int b = 0; b < kTokens; ++b) {
        if (b < tile.count) {
          const std::int64_t at = d.at(j, tile.first + b, r) * d.targets + k;
          add(dv[b], p.weights[at], dout_of<kPack>(p, k, tile, b, r, i));
          add(dv[b], p.pushes[at], u);
        }
      }
    }
    UNROLL for (int b = 0; b < kTokens; ++b) {
      if (b < tile.count) store_pack(panel.row(d, j, r, tile.first + b) + i, dv[b]);
    }
  }
}

// du of kTargets targets over one chunk of tokens: parts [chunk, K, M, D].
template <class A, int kPack>
__global__ void __launch_bounds__(kThreads) dask_kernel(AttendBackward<A> p, TokenChunks chunks, A* parts) {
  const Depth<A>& d = p.depth;
  const int r = int(blockIdx.x) % d.views, k = int(blockIdx.z) * kTargets;
  const std::int64_t chunk = blockIdx.x / d.views;
  const std::int64_t i = (std::int64_t(blockIdx.y) * kThreads + threadIdx.x) * kPack;
  if (i >= d.width) return;
  Pack<A, kPack> sums[kTargets];
  UNROLL for (int n = 0; n < kTargets; ++n) { sums[n] = zeros<A, kPack>(); }
  const std::int64_t begin = chunks.begin(chunk), end = chunks.end(chunk);
  for (std::int64_t number = 0; begin + number * kTokens < end; ++number) {
    const Tile tile(number, begin, end, d.length);
    for (int j = 0; j < d.sources; ++j) {
      Pack<A, kPack> v[kTokens];
      expand(d, d.view(j, r), tile, i, v);
      UNROLL for (int b = 0; b < kTokens; ++b) {
        const A* pushes = p.pushes + d.at(j, tile.first + b, r) * d.targets + k;
        UNROLL for (int n = 0; n < kTargets; ++n) {
          if (k + n < d.targets && b < tile.count) add(sums[n], pushes[n], v[b]);
        }
      }
    }
  }
  UNROLL for (int n = 0; n < kTargets; ++n) {
    if (k + n < d.targets)
      store_pack(parts + ((chunk * d.targets + k + n) * d.views + r) * d.width + i, sums[n]);
  }
}

template <class A>
std::vector<Target<A>> add_targets(DepthSetup<A>& setup, const DepthAttendBackward& job) {
  const Dims& dims = job.rstd.dims;
  std::vector<Target<A>> targets;
  for (const DepthAttendBackward::Target& t : job.targets) {
    if (!t.dout && !t.dlse) continue;
    const Dims rows{dims[1], dims[2], t.out.dims[2]};
    setup.add_ask(t.ask, t.dquery, t.dkey_norm);
    targets.push_back({setup.operands.input(t.out, rows, "out"), setup.operands.input(t.dout, rows, "dout"),
                       setup.operands.full(t.lse, {dims[1], dims[2]}, "lse"),
                       setup.operands.full(t.logits, dims, "logits"),
                       setup.operands.full(t.dlse, {dims[1], dims[2]}, "dlse")});
  }
  return targets;
}

template <class A>
void launch_all(CudaStream& stream, const DepthAttendBackward& job, DepthSetup<A>& setup,
                const DepthViewsGrad<A>& views, const AttendBackward<A>& p, A* parts, A* dasks) {
  const Depth<A>& d = p.depth;
  const TokenChunks chunks(d.tokens);
  const auto tiles = [&](std::int64_t n) { return blocks_for((n + kTokens - 1) / kTokens * d.views); };
  const StreamHandle to = stream.handle();
  stream.queue().fill(p.pulls, 0, job.rstd.numel() * std::int64_t(sizeof(A)));
  setup.operands.with_packs([&]<int kPack>() {
    const unsigned columns = blocks_for(d.width, kThreads * kPack);
    if (d.targets > 0) {
      launch(factors_kernel<A, kPack>, {tiles(d.tokens), kThreads, sizeof(FactorScratch<A>), to}, p);
      launch(
          dask_kernel<A, kPack>,
          {dim3(unsigned(chunks.count * d.views), columns, blocks_for(d.targets, kTargets)), kThreads, 0, to},
          p, chunks, parts);
    }
    views.template run<kPack>(to, [&](const Panel<A>& panel) {
      launch(dviews_kernel<A, kPack>, {dim3(tiles(panel.rows), columns), kThreads, 0, to}, p, panel);
    });
  });
  if (d.targets == 0) return;
  const std::int64_t each = d.targets * d.views * d.width;
  sum_chunks(to, parts, chunks.count, each, each, dasks, false);
  setup.add_query_grads(to, dasks);
}

template <class A>
void backward(CudaStream& stream, const DepthAttendBackward& job) {
  STRATA_CHECK(job.rstd.dims.rank == 3 && !job.targets.empty() && job.sources.size() == job.dsources.size(),
               "depth_attend_backward: rstd is ", job.rstd.dims.text(), ", ", job.targets.size(),
               " targets, ", job.sources.size(), " sources, ", job.dsources.size(), " gradients");
  const std::int64_t N = job.rstd.dims[0], T = job.rstd.dims[1], M = job.rstd.dims[2];
  DepthSetup<A> setup(job.kName, {T, M, job.targets[0].out.dims[2]}, job.sequences);
  DepthViewsGrad<A> views(setup);
  for (std::size_t j = 0; j < job.sources.size(); ++j)
    views.add_source(job.sources[j], job.dsources[j], job.sequences);
  AttendBackward<A> p{};
  p.rstd = setup.operands.full(job.rstd, {std::int64_t(job.sources.size()), T, M}, "rstd");
  const std::vector<Target<A>> targets = add_targets(setup, job);
  const std::int64_t K = std::int64_t(targets.size()), each = K * M * setup.depth().width;
  if (T == 0) return;
  Target<A>* table = nullptr;
  A *parts = nullptr, *dasks = nullptr;
  lay_out(stream, [&](ScratchPieces& pieces) {
    setup.take(pieces);
    views.take(pieces);
    table = pieces.take<Target<A>>(K);
    p.weights = pieces.take<A>(N * T * M * K);
    p.pushes = pieces.take<A>(N * T * M * K);
    p.pulls = pieces.take<A>(N * T * M);
    parts = pieces.take<A>(TokenChunks(T).count * each);
    dasks = pieces.take<A>(each);
  });
  setup.put(stream.handle());
  put_table(stream.handle(), targets, table);
  p.depth = setup.depth();
  p.targets = table;
  launch_all(stream, job, setup, views, p, parts, dasks);
}

}  // namespace

void run(CudaStream& stream, const DepthAttendBackward& job) {
  for_acc(job.rstd.dtype, [&]<class A>() { backward<A>(stream, job); });
}

}  // namespace strata::kernels
