// The M views of depth sources in kernels: the source itself, stream r of it, or the causal convolution
// view_t = sum_lag taps[lag] * v_{t-lag}, where a row before the sequence's start or in another document is
// zero. Views are made on the fly, for a tile of tokens in a few columns; nothing is ever stored.
#pragma once
#include "kernels/cuda/operands.cuh"

namespace strata::cuda {

constexpr int kTokens = 4;              // a tile: a tap is loaded once for these
constexpr int kTargets = 32 / kTokens;  // as many sums for each token as a warp has lanes for all

// View r of one source, or its place among those that a job has.
template <class A>
struct DepthView {
  Input<A> value;  // of token t: width elements from t * row on
  std::int64_t row = 0;
  std::int64_t lags = 0;    // 0: the view is the value
  A* taps = nullptr;        // [lags, D]
  const A* conv = nullptr;  // [D, kernel], what taps is made of
  std::int64_t kernel = 0;
  A* dconv = nullptr;  // [D, kernel], or nobody wants it
};

// What all kernels of a depth job know: N sources, M views, K queries u = query * key_norm.
template <class A>
struct Depth {
  std::int64_t tokens, width;
  int sources, views, targets;
  std::int64_t length;            // of a sequence
  const std::int32_t* documents;  // [T] or nullptr
  const DepthView<A>* seen;       // [N, M]
  const A* asks;                  // [K, M, D]

  __device__ const DepthView<A>& view(int j, int r) const { return seen[j * views + r]; }
  __device__ const A* ask(int k, int r) const { return asks + (std::int64_t(k) * views + r) * width; }
  // Where statistics [N, T, M] and activations [T, M, D] have source j, token t, view r.
  __device__ std::int64_t at(int j, std::int64_t t, int r) const { return (j * tokens + t) * views + r; }
  __device__ std::int64_t row(std::int64_t t, int r) const { return (t * views + r) * width; }
  // Whether token t, at `position` of its sequence, sees the row `lag` before it.
  __device__ bool sees(std::int64_t t, std::int64_t position, std::int64_t lag) const {
    return lag <= position && (!documents || documents[t - lag] == documents[t]);
  }
};

// Tokens first .. first + count - 1, and their positions.
struct Tile {
  std::int64_t first;
  int count;
  std::int64_t position[kTokens];

  // Number `number` of the tiles of [begin, end).
  __device__ Tile(std::int64_t number, std::int64_t begin, std::int64_t end, std::int64_t length) {
    first = begin + number * kTokens;
    count = int(end - first < kTokens ? end - first : kTokens);
    UNROLL for (int b = 0; b < kTokens; ++b) { position[b] = (first + b) % length; }
  }
};

// Columns i .. i + kPack - 1 of a view for all tokens of the tile; zero for those that the tile lacks.
template <int kPack, class A>
__device__ __forceinline__ void expand(const Depth<A>& d, const DepthView<A>& view, const Tile& tile,
                                       std::int64_t i, Pack<A, kPack> (&to)[kTokens]) {
  UNROLL for (int b = 0; b < kTokens; ++b) {
    to[b] = b < tile.count ? load<kPack>(view.value, (tile.first + b) * view.row + i) : zeros<A, kPack>();
  }
  if (view.lags == 0) return;
  Pack<A, kPack> rows[kTokens];  // what each token sees at the lag at hand
  UNROLL for (int b = 0; b < kTokens; ++b) {
    rows[b] = to[b];
    to[b] = zeros<A, kPack>();
  }
  for (std::int64_t lag = 0; lag < view.lags; ++lag) {
    if (lag > 0) {
      UNROLL for (int b = kTokens - 1; b > 0; --b) { rows[b] = rows[b - 1]; }
      if (lag <= tile.first) rows[0] = load<kPack>(view.value, (tile.first - lag) * view.row + i);
    }
    const auto tap = load_pack<kPack>(view.taps + lag * d.width + i);
    UNROLL for (int b = 0; b < kTokens; ++b) {
      if (b < tile.count && d.sees(tile.first + b, tile.position[b], lag)) {
        UNROLL for (int n = 0; n < kPack; ++n) { to[b].at[n] += tap.at[n] * rows[b].at[n]; }
      }
    }
  }
}

// A lane gets the warp's sum for token lane % kTokens. All lanes call.
template <class A>
__device__ __forceinline__ A warp_sum_tokens(const A (&of_token)[kTokens], Site site = Site::current()) {
  A mine = 0;
  UNROLL for (int b = 0; b < kTokens; ++b) {
    const A sum = warp_sum(of_token[b], site);
    if (int(threadIdx.x) % kTokens == b) mine = sum;
  }
  return mine;
}
// The sum over the lanes that have the same token, which is over targets.
template <class A>
__device__ __forceinline__ A warp_sum_targets(A value, Site site = Site::current()) {
  UNROLL for (int lanes = 16; lanes >= kTokens; lanes /= 2) {
    value += shuffle_xor(kFullWarp, value, lanes, site);
  }
  return value;
}

template <class A>
__device__ __forceinline__ A sigmoid(A x) {
  return A(1) / (A(1) + std::exp(-x));
}

}  // namespace strata::cuda
