// The way back through the views: gradients of the views become gradients of the sources' rows, dv_s =
// sum_lag taps[lag] * dview_{s+lag}, and of the taps, dtaps[lag] = sum_t dview_t * v_{t-lag}. It goes panel
// by panel: the view gradients of some tokens, and of the `reach` tokens after them, which see the panel's
// last rows, are put into working memory that stays in cache, and are gathered from there.
#pragma once
#include "kernels/cuda/depth_setup.cuh"

namespace strata::cuda {

// dviews [N, M, rows, D] of tokens begin .. begin + rows - 1, of which the first `own` belong to the panel.
template <class A>
struct Panel {
  A* dviews;
  std::int64_t begin, own, rows;
  __device__ A* row(const Depth<A>& d, int j, int r, std::int64_t t) const {
    return dviews + (((std::int64_t(j) * d.views + r) * rows) + t - begin) * d.width;
  }
};

template <class A>
struct SourceGrad {
  Output<A> dvalue;
  bool streams;
};

// What the views of one row s add up to, in kPack columns.
template <int kPack, class A>
__device__ Pack<A, kPack> gather_row(const Depth<A>& d, const Panel<A>& panel, int j, std::int64_t s,
                                     std::int64_t i) {
  const std::int64_t position = s % d.length;
  auto sum = zeros<A, kPack>();
  for (int r = 0; r < d.views; ++r) {
    const DepthView<A> view = d.view(j, r);
    if (view.lags == 0) add(sum, A(1), load_pack<kPack>(panel.row(d, j, r, s) + i));
    for (std::int64_t lag = 0; lag < view.lags && position + lag < d.length && s + lag < d.tokens; ++lag) {
      if (!d.sees(s + lag, position + lag, lag)) continue;
      const auto tap = load_pack<kPack>(view.taps + lag * d.width + i);
      const auto dview = load_pack<kPack>(panel.row(d, j, r, s + lag) + i);
      UNROLL for (int n = 0; n < kPack; ++n) { sum.at[n] += tap.at[n] * dview.at[n]; }
    }
  }
  return sum;
}

// One thread kPack columns of one of the panel's rows, of every source: two sources may share a gradient.
template <class A, int kPack>
__global__ void gather_kernel(Depth<A> d, Panel<A> panel, const SourceGrad<A>* grads) {
  const std::int64_t i = (std::int64_t(blockIdx.y) * blockDim.x + threadIdx.x) * kPack;
  const std::int64_t s = panel.begin + blockIdx.x;
  if (i >= d.width) return;
  for (int j = 0; j < d.sources; ++j) {
    const SourceGrad<A> grad = grads[j];
    if (!grad.dvalue.data) continue;
    if (!grad.streams) {
      store(grad.dvalue, s * d.width + i, gather_row<kPack>(d, panel, j, s, i));
      continue;
    }
    for (int r = 0; r < d.views; ++r)
      store(grad.dvalue, d.row(s, r) + i, load_pack<kPack>(panel.row(d, j, r, s) + i));
  }
}

constexpr int kTaps = 8;  // lags whose sums a thread keeps at a time

// One thread kTaps lags of kPack columns of one view, over the panel's tokens; panels come one after another.
template <class A, int kPack>
__global__ void taps_grad_kernel(Depth<A> d, Panel<A> panel) {
  const DepthView<A> view = d.seen[blockIdx.y];
  const std::int64_t i = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  const std::int64_t first_lag = std::int64_t(blockIdx.z) * kTaps;
  if (i >= d.width || !view.dconv || first_lag >= view.lags) return;
  const A* dviews = panel.row(d, int(blockIdx.y) / d.views, int(blockIdx.y) % d.views, panel.begin);
  Pack<A, kPack> sums[kTaps], rows[kTaps];  // rows[n]: value of token t - first_lag - n
  const auto value = [&](std::int64_t s) {
    return s < 0 ? zeros<A, kPack>() : load<kPack>(view.value, s * view.row + i);
  };
  UNROLL for (int n = 0; n < kTaps; ++n) {
    sums[n] = zeros<A, kPack>();
    rows[n] = value(panel.begin - 1 - first_lag - n);
  }
  for (std::int64_t t = panel.begin; t < panel.begin + panel.own; ++t) {
    UNROLL for (int n = kTaps - 1; n > 0; --n) { rows[n] = rows[n - 1]; }
    rows[0] = value(t - first_lag);
    const auto dview = load_pack<kPack>(dviews + (t - panel.begin) * d.width + i);
    const std::int64_t position = t % d.length;
    UNROLL for (int n = 0; n < kTaps; ++n) {
      if (d.sees(t, position, first_lag + n)) {
        UNROLL for (int c = 0; c < kPack; ++c) { sums[n].at[c] += dview.at[c] * rows[n].at[c]; }
      }
    }
  }
  for (int n = 0; n < kTaps && first_lag + n < view.lags; ++n)
    for (int c = 0; c < kPack; ++c) view.dconv[(i + c) * view.kernel + first_lag + n] += sums[n].at[c];
}

template <class A>
class DepthViewsGrad {
 public:
  explicit DepthViewsGrad(DepthSetup<A>& setup) : setup_(setup) {}

  void add_source(const kernels::DepthSource& source, const kernels::DepthSourceGrad& grad,
                  const Sequences& sequences) {
    setup_.add_source(source, sequences, grad);
    grads_.push_back(
        {setup_.operands.output(grad.dvalue, source.value.dims, "dvalue"), source.value.dims.rank == 3});
    wanted_ = wanted_ || grad.dvalue;
  }

  void take(ScratchPieces& pieces) {
    const Depth<A>& d = setup_.depth();
    for (const DepthView<A>& v : setup_.seen()) {
      wanted_ = wanted_ || v.dconv;
      if (v.dconv) most_lags_ = std::max(most_lags_, v.lags);
    }
    const std::int64_t bytes = d.sources * d.views * d.width * std::int64_t(sizeof(A));
    own_ = std::clamp<std::int64_t>((std::int64_t(32) << 20) / std::max<std::int64_t>(bytes, 1), 64, 256) /
           kTokens * kTokens;
    rows_ = std::min(d.tokens, own_ + setup_.reach());
    table_ = pieces.take<SourceGrad<A>>(d.sources);
    dviews_ = wanted_ ? pieces.take<A>(rows_ * bytes / std::int64_t(sizeof(A))) : nullptr;
  }

  // launch_dviews(panel) fills a panel's dviews. After the setup's put().
  template <int kPack, class F>
  void run(StreamHandle stream, F&& launch_dviews) const {
    const Depth<A>& d = setup_.depth();
    if (!wanted_) return;
    put_table(stream, grads_, table_);
    const unsigned columns = blocks_for(d.width, 128 * kPack);
    for (std::int64_t begin = 0; begin < d.tokens; begin += own_) {
      const std::int64_t own = std::min(own_, d.tokens - begin);
      const Panel<A> panel{dviews_, begin, own, std::min(rows_, d.tokens - begin)};
      launch_dviews(panel);
      launch(gather_kernel<A, kPack>, {dim3(unsigned(own), columns), 128, 0, stream}, d, panel, table_);
      if (most_lags_ > 0)
        launch(taps_grad_kernel<A, kPack>,
               {dim3(columns, unsigned(d.sources * d.views), blocks_for(most_lags_, kTaps)), 128, 0, stream},
               d, panel);
    }
  }

 private:
  DepthSetup<A>& setup_;
  std::vector<SourceGrad<A>> grads_;
  bool wanted_ = false;
  std::int64_t own_ = 0, rows_ = 0, most_lags_ = 0;
  SourceGrad<A>* table_ = nullptr;
  A* dviews_ = nullptr;
};

}  // namespace strata::cuda
