// Backward of phase 2, first part: dZ by columns, and what of the gradients belongs to a token. A block has a
// tile of tokens.
#pragma once
#include "kernels/cuda/depth_merge.cuh"

namespace strata::cuda {

template <class A>
struct MergeBackward {
  Merge<A> merge;
  Input<A> dy;
  const A *rstd, *gates, *gate_rstd;
  Output<A> dout, dlse;
  // Per token, working memory. dgates dy . z_g, pushes_z e_g, dlogits [T, M + 1] gradients of the bias and,
  // last, of the scale, pulls_z the factor of Z in its own gradient; pushes ds rho and pulls ds s rho^2 / D.
  A *dgates, *pushes_z, *dlogits, *pulls_z, *pushes, *pulls;
};

// Columns of dZ for all tokens of the tile; those that the tile lacks are left out.
template <int kPack, class A>
__device__ __forceinline__ void fused_grad(const MergeBackward<A>& p, const Tile& tile, int r, std::int64_t i,
                                           Pack<A, kPack> (&dz)[kTokens]) {
  const Depth<A>& d = p.merge.depth;
  const Fusion fusion = p.merge.fusion;
  Pack<A, kPack> z[kTokens];
  if (fusion == Fusion::Gate) merged(p.merge, tile, r, i, z);
  UNROLL for (int b = 0; b < kTokens; ++b) {
    dz[b] = zeros<A, kPack>();
    if (b < tile.count) {
      const std::int64_t t = tile.first + b;
      const auto dy = load<kPack>(p.dy, (fusion == Fusion::None ? d.row(t, r) : t * d.width) + i);
      const A mean = fusion == Fusion::Mean ? A(1) / A(d.views) : A(1);
      add(dz[b], fusion == Fusion::Gate ? p.gates[d.at(0, t, r)] : mean, dy);
      if (fusion == Fusion::Gate) add(dz[b], -p.pulls_z[t], z[b]);
    }
  }
  for (int g = 0; fusion == Fusion::Gate && g < d.views; ++g) {
    const auto w = load_pack<kPack>(p.merge.gate_row(g, r) + i);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      if (b < tile.count) add(dz[b], p.pushes_z[d.at(0, tile.first + b, g)], w);
    }
  }
}

// dy . z_r, by one warp.
template <int kPack, class A>
__device__ void gate_grad(const MergeBackward<A>& p, const Tile& tile, int r) {
  const Depth<A>& d = p.merge.depth;
  const int lane = int(threadIdx.x) % 32;
  A dots[kTokens] = {};
  for (std::int64_t i = lane * kPack; i < d.width; i += 32 * kPack) {
    Pack<A, kPack> z[kTokens];
    merged(p.merge, tile, r, i, z);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      if (b < tile.count) dots[b] += dot(load<kPack>(p.dy, (tile.first + b) * d.width + i), z[b]);
    }
  }
  const A product = warp_sum_tokens(dots);
  if (lane < tile.count) p.dgates[d.at(0, tile.first + lane, r)] = product;
}

// Through the gate, for gates g .. g + kTargets - 1, by one warp with lanes as gate_products has them.
template <class A>
__device__ void gate_logit_grads(const MergeBackward<A>& p, const Tile& tile, int g,
                                 const GateSums<A>& sums) {
  const Depth<A>& d = p.merge.depth;
  const int lane = int(threadIdx.x), gate = g + lane / kTokens, b = lane % kTokens;
  const std::int64_t t = tile.first + b;
  A dscale = 0, pull = 0;
  if (gate < d.views && b < tile.count) {
    const A value = p.gates[d.at(0, t, gate)], rstd = p.gate_rstd[t];
    const A dlogit = p.dgates[d.at(0, t, gate)] * value * (A(1) - value);
    const A push = dlogit * *p.merge.scale * rstd;
    p.dlogits[t * (d.views + 1) + gate] = dlogit;
    p.pushes_z[d.at(0, t, gate)] = push;
    dscale = dlogit * sums.product * rstd;
    pull = push * sums.product * rstd * rstd / A(d.views * d.width);
  }
  dscale = warp_sum_targets(dscale);
  pull = warp_sum_targets(pull);
  if (lane >= tile.count) return;
  A& all_dscale = p.dlogits[t * (d.views + 1) + d.views];
  all_dscale = g == 0 ? dscale : all_dscale + dscale;
  p.pulls_z[t] = g == 0 ? pull : p.pulls_z[t] + pull;
}

// ds of the partial's view r, by one warp.
template <int kPack, class A>
__device__ void score_grad(const MergeBackward<A>& p, const Tile& tile, int r) {
  const Depth<A>& d = p.merge.depth;
  const int lane = int(threadIdx.x) % 32;
  A dots[kTokens] = {};
  for (std::int64_t i = lane * kPack; i < d.width; i += 32 * kPack) {
    Pack<A, kPack> dz[kTokens], o[kTokens], v[kTokens];
    fused_grad(p, tile, r, i, dz);
    load_parts(p.merge, tile, r, i, o, v);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      add(v[b], A(-1), o[b]);
      dots[b] += dot(dz[b], v[b]);
    }
  }
  const A product = warp_sum_tokens(dots);
  if (lane >= tile.count) return;
  const std::int64_t at = d.at(0, tile.first + lane, r);
  const A ds = p.merge.omega(at) * p.merge.keep(at) * product, rstd = p.rstd[at];
  p.pushes[at] = ds * rstd;
  p.pulls[at] = ds * p.merge.logits[at] * rstd * rstd / A(d.width);
  if (p.dlse.data) store(p.dlse, at, Pack<A, 1>{-ds});
}

template <class A, int kPack>
__global__ void __launch_bounds__(kMergeThreads) merge_factors_kernel(MergeBackward<A> p) {
  auto& scratch = shared<GateScratch<A>>();
  const Depth<A>& d = p.merge.depth;
  const int warp = int(threadIdx.x) / 32;
  const Tile tile(blockIdx.x, 0, d.tokens, d.length);
  if (p.merge.fusion == Fusion::Gate) {
    for (int r = warp; r < d.views; r += kMergeWarps) gate_grad<kPack>(p, tile, r);
    for (int g = 0; g < d.views; g += kTargets) {
      const GateSums<A> sums = gate_products<kPack>(p.merge, tile, g, scratch);
      if (warp == 0) gate_logit_grads(p, tile, g, sums);
    }
    __syncthreads();
  }
  for (int r = warp; p.merge.merges() && r < d.views; r += kMergeWarps) score_grad<kPack>(p, tile, r);
}

}  // namespace strata::cuda
