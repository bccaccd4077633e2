// What both directions of phase 2 do for a tile of tokens: Z = o + omega (v - o), omega = sigmoid(s - lse),
// for each view v of the partial sum, or Z = o without one; and the gate's products W z.
#pragma once
#include "kernels/cuda/depth_views.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/jobs.h"

namespace strata::cuda {

using kernels::Fusion;

template <class A>
struct Merge {
  Depth<A> depth;         // one source and one query, or none
  Input<A> out;           // [T, M, D]
  const A *lse, *logits;  // [T, M]
  Fusion fusion;
  const A *gate, *scale, *bias;  // [M, M D], [1], [M]

  __device__ bool merges() const { return depth.sources > 0; }
  // Both halves of 1 = omega + keep to full precision.
  __device__ A omega(std::int64_t at) const { return sigmoid(logits[at] - lse[at]); }
  __device__ A keep(std::int64_t at) const { return sigmoid(lse[at] - logits[at]); }
  __device__ const A* gate_row(int g, int r) const {
    return gate + (std::int64_t(g) * depth.views + r) * depth.width;
  }
};

// Columns of o and, where there is a partial, of its view for all tokens of the tile; zero for those that the
// tile lacks.
template <int kPack, class A>
__device__ __forceinline__ void load_parts(const Merge<A>& p, const Tile& tile, int r, std::int64_t i,
                                           Pack<A, kPack> (&o)[kTokens], Pack<A, kPack> (&v)[kTokens]) {
  const Depth<A>& d = p.depth;
  UNROLL for (int b = 0; b < kTokens; ++b) {
    o[b] = b < tile.count ? load<kPack>(p.out, d.row(tile.first + b, r) + i) : zeros<A, kPack>();
  }
  if (p.merges()) expand(d, d.view(0, r), tile, i, v);
}

// Columns of Z.
template <int kPack, class A>
__device__ __forceinline__ void merged(const Merge<A>& p, const Tile& tile, int r, std::int64_t i,
                                       Pack<A, kPack> (&z)[kTokens]) {
  Pack<A, kPack> v[kTokens];
  load_parts(p, tile, r, i, z, v);
  if (!p.merges()) return;
  UNROLL for (int b = 0; b < kTokens; ++b) {
    if (b < tile.count) {
      const A omega = p.omega(p.depth.at(0, tile.first + b, r));
      UNROLL for (int n = 0; n < kPack; ++n) { z[b].at[n] += omega * (v[b].at[n] - z[b].at[n]); }
    }
  }
}

constexpr int kMergeThreads = 128, kMergeWarps = kMergeThreads / 32;

template <class A>
struct GateScratch {
  A product[kMergeWarps][32], square[kMergeWarps][32];
};
template <class A>
struct GateSums {
  A product, square;  // W_g . z and z . z
};

// Gates g .. g + kTargets - 1, by the block; lane l of every warp gets gate g + l / kTokens and token
// l % kTokens. Two block barriers, the second so that `scratch` is free again.
template <int kPack, class A>
__device__ GateSums<A> gate_products(const Merge<A>& p, const Tile& tile, int g, GateScratch<A>& scratch,
                                     Site site = Site::current()) {
  const Depth<A>& d = p.depth;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  A dots[32] = {}, squares[kTokens] = {};
  for (std::int64_t i = std::int64_t(threadIdx.x) * kPack; i < d.width; i += kMergeThreads * kPack)
    for (int r = 0; r < d.views; ++r) {
      Pack<A, kPack> z[kTokens];
      merged(p, tile, r, i, z);
      UNROLL for (int b = 0; b < kTokens; ++b) { squares[b] += dot(z[b], z[b]); }
      UNROLL for (int n = 0; n < kTargets; ++n) {
        if (g + n < d.views) {
          const auto w = load_pack<kPack>(p.gate_row(g + n, r) + i);
          UNROLL for (int b = 0; b < kTokens; ++b) { dots[n * kTokens + b] += dot(w, z[b]); }
        }
      }
    }
  scratch.product[warp][lane] = warp_sum_each(dots, site);
  scratch.square[warp][lane] = warp_sum_tokens(squares, site);
  sync_block(site);
  GateSums<A> sums{0, 0};
  for (int w = 0; w < kMergeWarps; ++w) {
    sums.product += scratch.product[w][lane];
    sums.square += scratch.square[w][lane];
  }
  sync_block(site);
  return sums;
}

}  // namespace strata::cuda
