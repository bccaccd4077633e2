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
  std::int64_t tile_rows() const { return reach_ + kTokenTile + 1; }

  // to [tap_rows, row]: the convolutions, lag by lag.
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
    taps_ = to;
  }
  const A* tap(std::int64_t r, std::int64_t lag) const { return taps_ + (first_tap(r) + lag) * row_; }

  bool sees(std::int64_t token, std::int64_t lag) const {
    return lag <= token % sequences_.length && (!documents_ || documents_[token - lag] == documents_[token]);
  }

  // Rows first - reach .. first + count - 1 of the source into `rows` [tile_rows, row]; the last row is zero.
  void load_rows(std::int64_t first, std::int64_t count, A* rows) const {
    for (std::int64_t i = std::max<std::int64_t>(0, reach_ - first); i < reach_ + count; ++i)
      load_padded(value_, (first - reach_ + i) * width_, width_, rows + i * row_);
    std::fill_n(rows + (tile_rows() - 1) * row_, row_, A(0));
  }
  // The row that tile token b sees at a lag. Of `rows` as load_rows lays them out.
  A* seen(A* rows, std::int64_t first, std::int64_t count, std::int64_t b, std::int64_t lag) const {
    const bool visible = b < count && sees(first + b, lag);
    return rows + (visible ? reach_ + b - lag : tile_rows() - 1) * row_;
  }

  // The views of tokens first .. first + count - 1; `rows` is working memory of [tile_rows, row].
  void expand(std::int64_t first, std::int64_t count, A* rows, const TileViews<A>& to) const {
    if (streams()) {
      for (std::int64_t b = 0; b < count; ++b)
        for (std::int64_t r = 0; r < views_; ++r)
          load_padded(value_, ((first + b) * views_ + r) * width_, width_, to.at(r, b));
      return;
    }
    load_rows(first, count, rows);
    for (std::int64_t r = 0; r < views_; ++r) {
      if (r > 0 && convolved())
        convolve(r, first, count, rows, to);
      else
        for (std::int64_t b = 0; b < count; ++b) std::copy_n(rows + (reach_ + b) * row_, row_, to.at(r, b));
    }
  }

 private:
  void convolve(std::int64_t r, std::int64_t first, std::int64_t count, A* rows,
                const TileViews<A>& to) const {
    typedef A Vector __attribute__((vector_size(kVectorBytes), may_alias));
    constexpr std::int64_t kTogether = 8;  // lags whose sums stay in registers
    for (std::int64_t begin = 0; begin < lags(r); begin += kTogether) {
      const std::int64_t n = std::min(kTogether, lags(r) - begin);
      const A* from[kTogether][kTokenTile];
      for (std::int64_t k = 0; k < n; ++k)
        for (std::int64_t b = 0; b < kTokenTile; ++b) from[k][b] = seen(rows, first, count, b, begin + k);
      for (std::int64_t i = 0; i < row_; i += kLanes<A>) {
        Vector sum[kTokenTile] = {};
        for (std::int64_t k = 0; k < n; ++k) {
          const auto c = *reinterpret_cast<const Vector*>(tap(r, begin + k) + i);
          for (int b = 0; b < kTokenTile; ++b) sum[b] += c * *reinterpret_cast<const Vector*>(from[k][b] + i);
        }
        for (int b = 0; b < count; ++b) {
          auto* y = reinterpret_cast<Vector*>(to.at(r, b) + i);
          *y = begin == 0 ? sum[b] : *y + sum[b];
        }
      }
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
