// What both directions of phase 2 do for a tile of tokens: Z = o + omega (v - o), omega = sigmoid(s - lse),
// for each view v of the partial sum, or Z = o without one; and the gate's products W z.
#pragma once
#include <optional>

#include "kernels/cpu/depth_views.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/row_dots.h"
#include "kernels/jobs.h"

namespace strata::kernels {

template <class A>
class MergeTile {
 public:
  // Shared memory is taken from `shared`; the job is a DepthMergeForward or its backward.
  template <class Job>
  MergeTile(const Job& job, Pieces<A>& shared)
      : views(job.out.dims[1]),
        width(job.out.dims[2]),
        row(padded<A>(width)),
        out_(job.out),
        lse_(job.lse.template as<A>()) {
    if (job.partial.value) from_.emplace(job.partial, views, job.sequences);
    asks_ = shared.take(merges() ? views * row : 0);
    taps_ = shared.take(merges() ? from_->packed_rows() * row : 0);
    gate_ = shared.take(job.fusion == Fusion::Gate ? views * views * row : 0);
  }
  template <class Job>
  void pack(const Job& job) {
    if (merges()) {
      pack_query(job.ask, views, width, asks_, row);
      from_->pack_taps(job.partial, taps_);
    }
    if (job.fusion != Fusion::Gate) return;
    for (std::int64_t m = 0; m < views * views; ++m)
      load_padded(job.gate.weight, m * width, width, gate_ + m * row);
  }

  bool merges() const { return from_.has_value(); }
  const DepthViews<A>& from() const { return *from_; }
  const A* ask(std::int64_t r) const { return asks_ + r * row; }
  const A* gate() const { return gate_; }  // [M, M * row]

  // A thread's memory. views [M, tile, row], z [tile, M, row], out [row], products [M, tile], rows: see
  // DepthViews.
  struct Working {
    A *z, *out, *products, *rows = nullptr;
    TileViews<A> views{};
    Working(const MergeTile& tile, Pieces<A>& memory) {
      z = memory.take(kTokenTile * tile.views * tile.row);
      out = memory.take(tile.row);
      products = memory.take(kTokenTile * tile.views);
      if (!tile.merges()) return;
      rows = memory.take(tile.from().tile_rows() * tile.row);
      views = {memory.take(kTokenTile * tile.views * tile.row), kTokenTile * tile.row, tile.row};
    }
  };

  // Fills w.views.
  void expand(const Working& w, std::int64_t first, std::int64_t count) const {
    if (merges()) from_->expand(first, count, w.rows, w.views);
  }
  A omega(A score, std::int64_t at) const { return sigmoid(score - lse_[at]); }
  A keep(A score, std::int64_t at) const { return sigmoid(lse_[at] - score); }  // 1 - omega
  void load_out(std::int64_t at, A* to) const { load_padded(out_, at * width, width, to); }

  // Fills w.z; score(at, r, b) is called once for each view of each token.
  template <class F>
  void merge(const Working& w, std::int64_t first, std::int64_t count, F&& score) const {
    for (std::int64_t b = 0; b < count; ++b)
      for (std::int64_t r = 0; r < views; ++r) {
        const std::int64_t at = (first + b) * views + r;
        A* z = w.z + (b * views + r) * row;
        load_out(at, z);
        if (!merges()) continue;
        const A weight = omega(score(at, r, b), at);
        const A* v = w.views.at(r, b);
        for (std::int64_t i = 0; i < row; ++i) z[i] += weight * (v[i] - z[i]);
      }
  }

  // products[r * tile + b] = W_r . z_b.
  void gate_products(const Working& w, std::int64_t count) const {
    row_dots<A>(views, count, {gate_, views * row}, {w.z, views * row}, views * row, w.products, kTokenTile);
  }

  const std::int64_t views, width, row;

 private:
  ConstView out_;
  const A* lse_;
  std::optional<DepthViews<A>> from_;
  A *asks_, *taps_, *gate_;
};

}  // namespace strata::kernels
