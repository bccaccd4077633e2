// Backward of phase 1, targets summed first: with p_j = exp(s_j - lse), ds_j = p_j (dout . v_j - dout . out +
// dlse), dv_j = sum_k p_j dout + ds_j rho_j u - ds_j s_j rho_j^2 v_j / D, du = sum_j ds_j rho_j v_j; then
// each source's views once back to the source.
#include <omp.h>

#include "kernels/cpu/depth_views_grad.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/row_dots.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class A>
class AttendBackward {
 public:
  using Target = DepthAttendBackward::Target;

  explicit AttendBackward(const DepthAttendBackward& job) : job_(job), chunks_(job.rstd.dims[1]) {
    tokens_ = job.rstd.dims[1], views_ = job.rstd.dims[2];
    sources_ = std::int64_t(job.sources.size());
    for (const Target& t : job.targets)
      if (t.dout || t.dlse) targets_.push_back(&t);
    active_ = std::int64_t(targets_.size());
    for (const DepthSource& s : job.sources) {
      from_.emplace_back(s, views_, job.sequences);
      tile_rows_ = std::max(tile_rows_, from_.back().tile_rows());
    }
    width_ = from_.at(0).width(), row_ = from_.at(0).row();
  }

  void run(CpuStream& stream) {
    if (chunks_.count == 0) return;
    Pieces<A> shared_sizes, task_sizes;
    lay_out(shared_sizes);
    Working(*this, task_sizes);
    const std::int64_t each = task_sizes.used();
    A* memory = stream.scratch<A>(shared_sizes.used() + each * omp_get_max_threads());
    Pieces<A> shared(memory);
    lay_out(shared);
    for (std::int64_t j = 0; j < sources_; ++j) from_[j].pack_taps(job_.sources[j], taps_[j]);
    for (std::int64_t k = 0; k < active_; ++k)
      pack_query(targets_[k]->ask, views_, width_, asks_ + k * row_, active_ * row_);
    parallel_for(chunks_.count, [&](std::int64_t c) {
      Pieces<A> task(memory + shared_sizes.used() + each * omp_get_thread_num());
      chunk(Working(*this, task), c);
    });
    for (const DepthViewsGrad<A>& g : grads_) g.finish();
    add_query_grads();
  }

 private:
  // A thread's memory. views [M, tile, N, row], dout [tile, K, row], p and c [K, tile, N], pull [tile, N],
  // rows: see DepthViews, sums of each source: see DepthViewsGrad.
  struct Working {
    A *views, *dout, *out, *p, *c, *pull, *rows;
    std::vector<A*> sums;
    Working(const AttendBackward& a, Pieces<A>& memory) {
      views = memory.take(a.views_ * kTokenTile * a.sources_ * a.row_);
      dout = memory.take(kTokenTile * a.active_ * a.row_);
      out = memory.take(a.row_);
      p = memory.take(kTokenTile * a.active_ * a.sources_);
      c = memory.take(kTokenTile * a.active_ * a.sources_);
      pull = memory.take(kTokenTile * a.sources_);
      rows = memory.take(a.tile_rows_ * a.row_);
      for (const DepthViewsGrad<A>& g : a.grads_) sums.push_back(memory.take(g.chunk_elements()));
    }
  };

  void lay_out(Pieces<A>& memory) {
    asks_ = memory.take(views_ * active_ * row_);                   // [M, K, row]
    dasks_ = memory.take(chunks_.count * views_ * active_ * row_);  // [chunk, M, K, row]
    taps_.clear();
    grads_.clear();
    grads_.reserve(sources_);
    for (std::int64_t j = 0; j < sources_; ++j) {
      taps_.push_back(memory.take(from_[j].packed_rows() * row_));
      grads_.emplace_back(from_[j], job_.dsources[j], chunks_, memory);
    }
  }

  TileViews<A> views_of(const Working& w, std::int64_t j) const {
    return {w.views + j * row_, kTokenTile * sources_ * row_, sources_ * row_};
  }

  void chunk(const Working& w, std::int64_t c) const {
    A* dasks = dasks_ + c * views_ * active_ * row_;
    std::fill_n(dasks, views_ * active_ * row_, A(0));
    for (std::int64_t j = 0; j < sources_; ++j) grads_[j].start(c, w.sums[j]);
    for (std::int64_t t = chunks_.begin(c); t < chunks_.end(c); t += kTokenTile) {
      const std::int64_t count = std::min(kTokenTile, chunks_.end(c) - t);
      for (std::int64_t j = 0; j < sources_; ++j) from_[j].expand(t, count, w.rows, views_of(w, j));
      for (std::int64_t r = 0; r < views_; ++r) view(w, r, t, count, dasks + r * active_ * row_);
      for (std::int64_t j = 0; j < sources_; ++j)
        grads_[j].add(c, t, count, w.rows, views_of(w, j), w.sums[j]);
    }
    for (std::int64_t j = 0; j < sources_; ++j) grads_[j].end(c, w.sums[j]);
  }

  // View r of a tile: its views become their gradients.
  void view(const Working& w, std::int64_t r, std::int64_t first, std::int64_t count, A* dasks) const {
    A* views = w.views + r * kTokenTile * sources_ * row_;
    const A* asks = asks_ + r * active_ * row_;
    std::fill_n(w.pull, kTokenTile * sources_, A(0));
    for (std::int64_t b = 0; b < count; ++b) {
      const A* dout = w.dout + b * active_ * row_;
      for (std::int64_t k = 0; k < active_; ++k)
        load_dout(*targets_[k], first + b, r, w.dout + (b * active_ + k) * row_);
      row_dots<A>(active_, sources_, {dout, row_}, {views + b * sources_ * row_, row_}, row_,
                  w.c + b * sources_, kTokenTile * sources_);
      for (std::int64_t k = 0; k < active_; ++k) {
        const std::int64_t at = (k * kTokenTile + b) * sources_;
        scores(*targets_[k], first + b, r, dout + k * row_, w.out, w.p + at, w.c + at, w.pull + b * sources_);
      }
    }
    if (active_ == 1) return combine<1>(w, asks, count, views, dasks);
    if (active_ == 2) return combine<2>(w, asks, count, views, dasks);
    const std::int64_t step = kTokenTile * sources_;  // from a target's coefficients to the next one's
    block_product<A>(active_, row_, count * sources_, {w.c, step, 1}, views, row_, dasks, row_, true);
    for (std::int64_t m = 0; m < count * sources_; ++m)
      for (std::int64_t i = 0; i < row_; ++i) views[m * row_ + i] *= w.pull[m];
    for (std::int64_t b = 0; b < count; ++b) {
      A* dviews = views + b * sources_ * row_;
      const LeftFactor<A> p{w.p + b * sources_, 1, step}, c{w.c + b * sources_, 1, step};
      block_product<A>(sources_, row_, active_, p, w.dout + b * active_ * row_, row_, dviews, row_, true);
      block_product<A>(sources_, row_, active_, c, asks, row_, dviews, row_, true);
    }
  }

  // What the products below do, in one pass for few targets: du_k += sum_j c_kj v_j, then v_j = pull_j v_j +
  // sum_k p_kj dout_k + c_kj u_k.
  template <int kTargets>
  void combine(const Working& w, const A* asks, std::int64_t count, A* views, A* dasks) const {
    for (std::int64_t b = 0; b < count; ++b) {
      const A *dout = w.dout + b * active_ * row_, *p = w.p + b * sources_, *c = w.c + b * sources_;
      const A* pull = w.pull + b * sources_;
      A* seen = views + b * sources_ * row_;
      constexpr int kVectors = 2;
      std::int64_t i = 0;
      for (; i + kVectors * kLanes<A> <= row_; i += kVectors * kLanes<A>)
        combine_columns<kTargets, kVectors>(asks + i, dout + i, p, c, pull, seen + i, dasks + i);
      for (; i < row_; i += kLanes<A>)
        combine_columns<kTargets, 1>(asks + i, dout + i, p, c, pull, seen + i, dasks + i);
    }
  }
  template <int kTargets, int kVectors>
  void combine_columns(const A* u, const A* dout, const A* p, const A* c, const A* pull, A* seen,
                       A* du) const {
    typedef A Vector __attribute__((vector_size(kVectorBytes), may_alias));
    const auto at = [](const A* x, int v) { return reinterpret_cast<const Vector*>(x)[v]; };
    const std::int64_t step = kTokenTile * sources_;  // from a target's coefficients to the next one's
    Vector sum[kTargets][kVectors];
    for (int k = 0; k < kTargets; ++k)
      for (int v = 0; v < kVectors; ++v) sum[k][v] = at(du + k * row_, v);
    for (std::int64_t j = 0; j < sources_; ++j)
      for (int v = 0; v < kVectors; ++v) {
        const Vector x = at(seen + j * row_, v);
        Vector dx = x * pull[j];
        for (int k = 0; k < kTargets; ++k) {
          sum[k][v] += x * c[k * step + j];
          dx += at(dout + k * row_, v) * p[k * step + j] + at(u + k * row_, v) * c[k * step + j];
        }
        reinterpret_cast<Vector*>(seen + j * row_)[v] = dx;
      }
    for (int k = 0; k < kTargets; ++k)
      for (int v = 0; v < kVectors; ++v) reinterpret_cast<Vector*>(du + k * row_)[v] = sum[k][v];
  }

  void load_dout(const Target& target, std::int64_t t, std::int64_t r, A* to) const {
    if (target.dout)
      load_padded(target.dout, (t * views_ + r) * width_, width_, to);
    else
      std::fill_n(to, row_, A(0));
  }

  // c holds dout . v_j and becomes ds_j rho_j; pull: the factor of v_j in its own gradient, summed over
  // targets.
  void scores(const Target& target, std::int64_t t, std::int64_t r, const A* dout, A* out, A* p, A* c,
              A* pull) const {
    load_padded(target.out, (t * views_ + r) * width_, width_, out);
    const A dlse = target.dlse ? target.dlse.as<A>()[t * views_ + r] : A(0);
    const A level = dot(dout, out, row_) - dlse, lse = target.lse.as<A>()[t * views_ + r];
    const A *logits = target.logits.as<A>(), *rstd = job_.rstd.as<A>();
    for (std::int64_t j = 0; j < sources_; ++j) {
      const std::int64_t at = (j * tokens_ + t) * views_ + r;
      p[j] = fast_exp(logits[at] - lse);
      c[j] = p[j] * (c[j] - level) * rstd[at];
      pull[j] -= c[j] * logits[at] * rstd[at] / A(width_);
    }
  }

  void add_query_grads() const {
    const std::int64_t each = views_ * active_ * row_;
    if (chunks_.count > 1) add_partials(dasks_ + each, chunks_.count - 1, each, dasks_);
    for (std::int64_t k = 0; k < active_; ++k)
      add_query_grad(targets_[k]->ask, views_, width_, dasks_ + k * row_, active_ * row_, targets_[k]->dquery,
                     targets_[k]->dkey_norm);
  }

  const DepthAttendBackward& job_;
  const Chunks chunks_;
  std::int64_t tokens_, views_, width_, row_, sources_, active_, tile_rows_ = 0;
  std::vector<const Target*> targets_;  // those a gradient arrived for
  std::vector<DepthViews<A>> from_;
  std::vector<DepthViewsGrad<A>> grads_;
  std::vector<A*> taps_;
  A *asks_ = nullptr, *dasks_ = nullptr;
};

}  // namespace

void run(CpuStream& stream, const DepthAttendBackward& job) {
  for_acc(job.rstd.dtype, [&]<class A>() { AttendBackward<A>(job).run(stream); });
}

}  // namespace strata::kernels
