// The M views of one source for a tile of tokens, made on the fly: the source itself, stream r of it, or for
// r >= 1 the causal convolution view_t = sum_lag taps[lag] * v_{t-lag}, where a row before the sequence's
// start or in another document is zero. Rows are in Acc, padded to whole vectors.
#pragma once
#include <algorithm>
#include <vector>

#include "kernels/cpu/block_product.h"
#include "kernels/cpu/row_io.h"
#include "kernels/jobs.h"

namespace strata::kernels {

constexpr std::int64_t kTokenTile = 4;

// n elements as a row of `padded` ones.
template <class A>
void load_padded(const ConstView& view, std::int64_t offset, std::int64_t n, A* to) {
  load_row(view, offset, n, to);
  std::fill(to + n, to + padded<A>(n), A(0));
}

// Where view r of tile token b lies: one row for each.
template <class A>
struct TileViews {
  A* data;
  std::int64_t view, token;  // strides

  A* at(std::int64_t r, std::int64_t b) const { return data + r * view + b * token; }
};

// Rows of a source around a tile of tokens: tile token 0's at `first`, the next one's behind it, those that
// taps reach before it.
template <class A>
struct TileRows {
  const A* first;
  bool plain;  // a whole tile whose taps all meet the row that many before
};

// One source, its extents, and which rows its convolutions reach.
template <class A>
class DepthViews {
 public:
  DepthViews(const DepthSource& source, std::int64_t views, const Sequences& sequences)
      : value_(source.value),
        views_(views),
        width_(source.value.dims[source.value.dims.rank - 1]),
        row_(padded<A>(width_)),
        sequences_(sequences),
        documents_(sequences.documents.as<std::int32_t>()) {
    for (const ConstView& c : source.conv) {
      lags_.push_back(std::min(c.dims[1], sequences.length));
      first_tap_.push_back(tap_rows_);
      tap_rows_ += lags_.back();
      reach_ = std::max(reach_, lags_.back() - 1);
    }
  }

  std::int64_t views() const { return views_; }
  std::int64_t width() const { return width_; }
  std::int64_t row() const { return row_; }
  bool streams() const { return value_.dims.rank == 3; }
  bool convolved() const { return !lags_.empty(); }
  std::int64_t reach() const { return reach_; }  // rows before a token that its views see
  std::int64_t lags(std::int64_t r) const { return lags_[r - 1]; }
  std::int64_t tap_rows() const { return tap_rows_; }
  std::int64_t first_tap(std::int64_t r) const { return first_tap_[r - 1]; }  // row of lag 0
  std::int64_t tile_rows() const { return reach_ + kTokenTile; }
  std::int64_t packed_rows() const { return tap_rows_ + 1; }

  // to [packed_rows, row]: the convolutions, lag by lag, and a row of zeros.
  void pack_taps(const DepthSource& source, A* to) {
    for (std::size_t r = 0; r < source.conv.size(); ++r) {
      const A* c = source.conv[r].as<A>();
      const std::int64_t kernel = source.conv[r].dims[1];
      for (std::int64_t lag = 0; lag < lags_[r]; ++lag) {
        A* tap = to + (first_tap_[r] + lag) * row_;
        for (std::int64_t i = 0; i < width_; ++i) tap[i] = c[i * kernel + lag];
        std::fill(tap + width_, tap + row_, A(0));
      }
    }
    std::fill_n(to + tap_rows_ * row_, row_, A(0));
    taps_ = to;
  }
  const A* tap(std::int64_t r, std::int64_t lag) const { return taps_ + (first_tap(r) + lag) * row_; }
  const A* zero() const { return taps_ + tap_rows_ * row_; }

  // The rows in place where they are of type A and whole vectors, else copied to `buffer` [tile_rows, row].
  TileRows<A> rows(std::int64_t first, std::int64_t count, A* buffer) const {
    const bool plain = is_plain(first, count);
    if (value_.dtype == dtype_of<A>() && row_ == width_ &&
        reinterpret_cast<std::uintptr_t>(value_.data) % kVectorBytes == 0)
      return {value_.as<A>() + first * width_, plain};
    for (std::int64_t i = -std::min(reach_, first); i < count; ++i)
      load_padded(value_, (first + i) * width_, width_, buffer + (reach_ + i) * row_);
    return {buffer + reach_ * row_, plain};
  }
  // The row that tile token b meets at a lag: of zeros where it sees none.
  const A* seen(const TileRows<A>& rows, std::int64_t first, std::int64_t count, std::int64_t b,
                std::int64_t lag) const {
    return b < count && sees(first + b, lag) ? rows.first + (b - lag) * row_ : zero();
  }

  // The views of tokens first .. first + count - 1; `buffer` is working memory of [tile_rows, row].
  void expand(std::int64_t first, std::int64_t count, A* buffer, const TileViews<A>& to) const {
    if (streams()) {
      for (std::int64_t b = 0; b < count; ++b)
        for (std::int64_t r = 0; r < views_; ++r)
          load_padded(value_, ((first + b) * views_ + r) * width_, width_, to.at(r, b));
      return;
    }
    const TileRows<A> from = rows(first, count, buffer);
    for (std::int64_t r = 0; r < views_; ++r) {
      if (r > 0 && convolved())
        from.plain ? convolve_plain(r, from.first, to) : convolve(r, first, count, from, to);
      else
        for (std::int64_t b = 0; b < count; ++b) std::copy_n(from.first + b * row_, row_, to.at(r, b));
    }
  }

 private:
  typedef A Vector __attribute__((vector_size(kVectorBytes), may_alias));

  bool sees(std::int64_t token, std::int64_t lag) const {
    return lag <= token % sequences_.length && (!documents_ || documents_[token - lag] == documents_[token]);
  }
  bool is_plain(std::int64_t first, std::int64_t count) const {
    const std::int64_t place = first % sequences_.length;
    if (count < kTokenTile || place < reach_ || place + count > sequences_.length) return false;
    return !documents_ || std::all_of(documents_ + first - reach_, documents_ + first + count,
                                      [&](std::int32_t d) { return d == documents_[first]; });
  }

  // Both ways add the taps of an element in the order of their lags.
  void convolve(std::int64_t r, std::int64_t first, std::int64_t count, const TileRows<A>& rows,
                const TileViews<A>& to) const {
    for (std::int64_t b = 0; b < count; ++b) {
      A* y = to.at(r, b);
      std::fill_n(y, row_, A(0));
      for (std::int64_t lag = 0; lag < lags(r); ++lag) {
        const A *x = seen(rows, first, count, b, lag), *c = tap(r, lag);
        for (std::int64_t i = 0; i < row_; ++i) y[i] += c[i] * x[i];
      }
    }
  }
  void convolve_plain(std::int64_t r, const A* rows, const TileViews<A>& to) const {
    std::int64_t i = 0;
    for (; i + 2 * kLanes<A> <= row_; i += 2 * kLanes<A>) convolve_columns<2>(r, rows, i, to);
    for (; i < row_; i += kLanes<A>) convolve_columns<1>(r, rows, i, to);
  }
  template <int kVectors>
  void convolve_columns(std::int64_t r, const A* rows, std::int64_t i, const TileViews<A>& to) const {
    Vector sum[kTokenTile][kVectors] = {};
    std::int64_t lag = 0;
    for (; lag + 4 <= lags(r); lag += 4) add_taps<4>(tap(r, lag) + i, rows - lag * row_ + i, sum);
    for (; lag < lags(r); ++lag) add_taps<1>(tap(r, lag) + i, rows - lag * row_ + i, sum);
    for (int b = 0; b < kTokenTile; ++b)
      for (int v = 0; v < kVectors; ++v) reinterpret_cast<Vector*>(to.at(r, b) + i)[v] = sum[b][v];
  }
  template <int kLags, int kVectors>
  void add_taps(const A* taps, const A* rows, Vector (&sum)[kTokenTile][kVectors]) const {
    for (int v = 0; v < kVectors; ++v)
      for (int k = 0; k < kLags; ++k) {
        const Vector c = reinterpret_cast<const Vector*>(taps + k * row_)[v];
        for (int b = 0; b < kTokenTile; ++b)
          sum[b][v] += c * reinterpret_cast<const Vector*>(rows + (b - k) * row_)[v];
      }
  }

  ConstView value_;
  std::int64_t views_, width_, row_;
  Sequences sequences_;
  const std::int32_t* documents_;
  std::vector<std::int64_t> lags_, first_tap_;
  std::int64_t tap_rows_ = 0, reach_ = 0;
  const A* taps_ = nullptr;
};

// u = query * key_norm as rows [M] padded, `stride` apart.
template <class A>
void pack_query(const DepthQuery& ask, std::int64_t views, std::int64_t width, A* to, std::int64_t stride) {
  const A *q = ask.query.as<A>(), *w = ask.key_norm.as<A>();
  for (std::int64_t r = 0; r < views; ++r, to += stride) {
    for (std::int64_t i = 0; i < width; ++i) to[i] = q[r * width + i] * w[i];
    std::fill(to + width, to + padded<A>(width), A(0));
  }
}

// du, the gradient of u [M] rows `stride` apart, goes on: dq += w du, dw += sum_r q_r du_r.
template <class A>
void add_query_grad(const DepthQuery& ask, std::int64_t views, std::int64_t width, const A* du,
                    std::int64_t stride, const View& dquery, const View& dkey_norm) {
  const A *q = ask.query.as<A>(), *w = ask.key_norm.as<A>();
  A *dq = dquery.as<A>(), *dw = dkey_norm.as<A>();
  for (std::int64_t r = 0; r < views; ++r, du += stride)
    for (std::int64_t i = 0; i < width; ++i) {
      if (dq) dq[r * width + i] += w[i] * du[i];
      if (dw) dw[i] += q[r * width + i] * du[i];
    }
}

}  // namespace strata::kernels
