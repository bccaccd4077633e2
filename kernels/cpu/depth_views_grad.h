// The way back through the views of one source: gradients of a tile's views become gradients of the source's
// rows, dv_{t-lag} += taps[lag] * dview_t, and of the taps, dtaps[lag] += sum_t dview_t * v_{t-lag}. A chunk
// of tokens sums its own rows and the `reach` rows before it, which belong to earlier chunks and are added to
// theirs when all are done.
#pragma once
#include "kernels/cpu/depth_views.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pieces.h"

namespace strata::kernels {

template <class A>
class DepthViewsGrad {
 public:
  // Shared memory of all chunks is taken from `shared`.
  DepthViewsGrad(const DepthViews<A>& views, const DepthSourceGrad& grad, const Chunks& chunks,
                 Pieces<A>& shared)
      : views_(views), grad_(grad), chunks_(chunks), row_(views.row()), reach_(views.reach()) {
    dtaps_ = shared.take(chunks.count * views.tap_rows() * row_);
    before_ = shared.take(chunks.count * reach_ * row_);
  }

  // A chunk's sums: its rows with `reach` before. Without convolutions no row waits for later tokens.
  std::int64_t chunk_elements() const { return views_.convolved() ? (reach_ + chunks_.size) * row_ : 0; }

  void start(std::int64_t chunk, A* sums) const {
    std::fill_n(sums, chunk_elements(), A(0));
    std::fill_n(dtaps(chunk), views_.tap_rows() * row_, A(0));
  }

  // buffer: as of DepthViews::expand. Without convolutions dviews may change.
  void add(std::int64_t chunk, std::int64_t first, std::int64_t count, A* buffer, const TileViews<A>& dviews,
           A* sums) const {
    if (!views_.convolved()) return store_tile(first, count, dviews);
    A* own = sums + (reach_ + first - chunks_.begin(chunk)) * row_;
    for (std::int64_t b = 0; b < count; ++b) add_row(dviews.at(0, b), own + b * row_);
    const TileRows<A> rows = views_.rows(first, count, buffer);
    for (std::int64_t r = 1; r < views_.views(); ++r) {
      std::int64_t lag = 0;
      A* dtap = dtaps(chunk) + views_.first_tap(r) * row_;
      if (rows.plain)
        for (; lag + 4 <= views_.lags(r); lag += 4) add_lags<4>(r, lag, rows.first, dviews, own, dtap);
      for (; lag < views_.lags(r); ++lag)
        rows.plain ? add_lags<1>(r, lag, rows.first, dviews, own, dtap)
                   : add_lag(r, lag, first, count, rows, dviews, own, dtap + lag * row_);
    }
  }

  void end(std::int64_t chunk, const A* sums) const {
    std::copy_n(sums, reach_ * row_, before(chunk));
    if (!grad_.dvalue || !views_.convolved()) return;
    for (std::int64_t t = chunks_.begin(chunk); t < chunks_.end(chunk); ++t)
      store_row(grad_.dvalue.view, t * views_.width(), views_.width(),
                sums + (reach_ + t - chunks_.begin(chunk)) * row_, grad_.dvalue.mode);
  }

  // After all chunks.
  void finish() const {
    if (grad_.dvalue && reach_ > 0)
      parallel_for(chunks_.count, [&](std::int64_t c) {
        for (std::int64_t later = c + 1; later < chunks_.count; ++later) add_before(c, later);
      });
    if (!views_.convolved()) return;
    const std::int64_t each = views_.tap_rows() * row_;
    if (chunks_.count > 1) add_partials(dtaps_ + each, chunks_.count - 1, each, dtaps_);
    for (std::size_t k = 0; k < grad_.dconv.size(); ++k)
      if (grad_.dconv[k]) add_dtaps(std::int64_t(k) + 1, grad_.dconv[k]);
  }

 private:
  A* dtaps(std::int64_t chunk) const { return dtaps_ + chunk * views_.tap_rows() * row_; }
  A* before(std::int64_t chunk) const { return before_ + chunk * reach_ * row_; }

  void add_row(const A* from, A* to) const {
    for (std::int64_t i = 0; i < row_; ++i) to[i] += from[i];
  }

  // Streams, or views that are all the source itself.
  void store_tile(std::int64_t first, std::int64_t count, const TileViews<A>& dviews) const {
    if (!grad_.dvalue) return;
    const std::int64_t width = views_.width(), streams = views_.streams() ? views_.views() : 1;
    for (std::int64_t b = 0; b < count; ++b) {
      for (std::int64_t r = streams; r < views_.views(); ++r) add_row(dviews.at(r, b), dviews.at(0, b));
      for (std::int64_t r = 0; r < streams; ++r)
        store_row(grad_.dvalue.view, ((first + b) * streams + r) * width, width, dviews.at(r, b),
                  grad_.dvalue.mode);
    }
  }

  // own: the sums of the tile's tokens. For tiles that are not plain.
  void add_lag(std::int64_t r, std::int64_t lag, std::int64_t first, std::int64_t count,
               const TileRows<A>& rows, const TileViews<A>& dviews, A* own, A* dtap) const {
    const A* tap = views_.tap(r, lag);
    for (std::int64_t b = 0; b < count; ++b) {
      const A *from = views_.seen(rows, first, count, b, lag), *d = dviews.at(r, b);
      if (from == views_.zero()) continue;
      A* to = own + (b - lag) * row_;
      for (std::int64_t i = 0; i < row_; ++i) {
        dtap[i] += d[i] * from[i];
        to[i] += tap[i] * d[i];
      }
    }
  }

  // kLags lags from `lag` on, for a plain tile; dtap: row of lag 0.
  template <int kLags>
  void add_lags(std::int64_t r, std::int64_t lag, const A* rows, const TileViews<A>& dviews, A* own,
                A* dtap) const {
    const TileViews<A> d{dviews.at(r, 0), 0, dviews.token};
    rows -= lag * row_, own -= lag * row_, dtap += lag * row_;
    const A* tap = views_.tap(r, lag);
    std::int64_t i = 0;
    for (; i + 2 * kLanes<A> <= row_; i += 2 * kLanes<A>) add_columns<kLags, 2>(i, tap, rows, d, own, dtap);
    for (; i < row_; i += kLanes<A>) add_columns<kLags, 1>(i, tap, rows, d, own, dtap);
  }
  template <int kLags, int kVectors>
  void add_columns(std::int64_t i, const A* tap, const A* rows, const TileViews<A>& dview, A* own,
                   A* dtap) const {
    typedef A Vector __attribute__((vector_size(kVectorBytes), may_alias));
    const auto at = [i](const A* x, int v) { return reinterpret_cast<const Vector*>(x + i)[v]; };
    for (int v = 0; v < kVectors; ++v) {
      Vector sum[kLags] = {};
      for (int b = 0; b < kTokenTile; ++b) {
        const Vector d = at(dview.at(0, b), v);
        for (int k = 0; k < kLags; ++k) sum[k] += d * at(rows + (b - k) * row_, v);
      }
      for (int k = 0; k < kLags; ++k) reinterpret_cast<Vector*>(dtap + k * row_ + i)[v] += sum[k];
    }
    for (int v = 0; v < kVectors; ++v) {
      Vector sum[kLags + kTokenTile - 1];
      for (int t = 0; t < kLags + kTokenTile - 1; ++t) sum[t] = at(own + (t + 1 - kLags) * row_, v);
      for (int b = 0; b < kTokenTile; ++b) {
        const Vector d = at(dview.at(0, b), v);
        for (int k = 0; k < kLags; ++k) sum[b - k + kLags - 1] += d * at(tap + k * row_, v);
      }
      for (int t = 0; t < kLags + kTokenTile - 1; ++t)
        reinterpret_cast<Vector*>(own + (t + 1 - kLags) * row_ + i)[v] = sum[t];
    }
  }

  // What chunk `later` summed for rows of chunk c.
  void add_before(std::int64_t c, std::int64_t later) const {
    const std::int64_t start = chunks_.begin(later) - reach_;
    for (std::int64_t t = std::max(chunks_.begin(c), start); t < chunks_.end(c); ++t)
      store_row(grad_.dvalue.view, t * views_.width(), views_.width(), before(later) + (t - start) * row_,
                Write::Accumulate);
  }

  void add_dtaps(std::int64_t r, const View& dconv) const {
    A* to = dconv.as<A>();
    const std::int64_t kernel = dconv.dims[1];
    for (std::int64_t i = 0; i < views_.width(); ++i)
      for (std::int64_t lag = 0; lag < views_.lags(r); ++lag)
        to[i * kernel + lag] += dtaps_[(views_.first_tap(r) + lag) * row_ + i];
  }

  const DepthViews<A>& views_;
  const DepthSourceGrad& grad_;
  Chunks chunks_;
  std::int64_t row_, reach_;
  A *dtaps_, *before_;
};

}  // namespace strata::kernels
