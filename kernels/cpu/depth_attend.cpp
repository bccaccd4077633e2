// Phase 1 of the retrieval over depth: out = sum_j p_j v_j, p = softmax_j(u . v_j / RMS(v_j)), u = query *
// key_norm, for many targets and views over the completed sources. The views of a tile of tokens are made
// once for all targets.
#include <omp.h>

#include <cmath>

#include "kernels/cpu/depth_views.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pieces.h"
#include "kernels/cpu/row_dots.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class A>
class Attend {
 public:
  explicit Attend(const DepthAttendForward& job) : job_(job) {
    const View& out = job.targets.at(0).out;
    tokens_ = out.dims[0], views_ = out.dims[1], width_ = out.dims[2], row_ = padded<A>(width_);
    sources_ = std::int64_t(job.sources.size()), targets_ = std::int64_t(job.targets.size());
    for (const DepthSource& s : job.sources) {
      from_.emplace_back(s, views_, job.sequences);
      tile_rows_ = std::max(tile_rows_, from_.back().tile_rows());
    }
  }

  void run(CpuStream& stream) {
    Pieces<A> shared_sizes, task_sizes;
    lay_out(shared_sizes);
    Working(*this, task_sizes);
    const std::int64_t each = task_sizes.used();
    A* memory = stream.scratch<A>(shared_sizes.used() + each * omp_get_max_threads());
    Pieces<A> shared(memory);
    lay_out(shared);
    for (std::int64_t j = 0; j < sources_; ++j) from_[j].pack_taps(job_.sources[j], taps_[j]);
    for (std::int64_t k = 0; k < targets_; ++k)
      pack_query(job_.targets[k].ask, views_, width_, asks_ + k * row_, targets_ * row_);
    const Chunks chunks(tokens_);
    parallel_for(chunks.count, [&](std::int64_t c) {
      Pieces<A> task(memory + shared_sizes.used() + each * omp_get_thread_num());
      const Working w(*this, task);
      for (std::int64_t t = chunks.begin(c); t < chunks.end(c); t += kTokenTile)
        tile(w, t, std::min(kTokenTile, chunks.end(c) - t));
    });
  }

 private:
  // A thread's memory. views [M, tile, N, row], scores [K, tile, N], out [K, row], rows: see DepthViews.
  struct Working {
    A *views, *scores, *out, *rows, *rstd;
    Working(const Attend& a, Pieces<A>& memory)
        : views(memory.take(a.views_ * kTokenTile * a.sources_ * a.row_)),
          scores(memory.take(a.targets_ * kTokenTile * a.sources_)),
          out(memory.take(a.targets_ * a.row_)),
          rows(memory.take(a.tile_rows_ * a.row_)),
          rstd(memory.take(kTokenTile * a.sources_)) {}
  };

  void lay_out(Pieces<A>& memory) {
    asks_ = memory.take(views_ * targets_ * row_);  // [M, K, row]
    taps_.clear();
    for (const DepthViews<A>& from : from_) taps_.push_back(memory.take(from.packed_rows() * row_));
  }

  void tile(const Working& w, std::int64_t first, std::int64_t count) const {
    for (std::int64_t j = 0; j < sources_; ++j)
      from_[j].expand(first, count, w.rows,
                      {w.views + j * row_, kTokenTile * sources_ * row_, sources_ * row_});
    for (std::int64_t r = 0; r < views_; ++r) {
      const A* views = w.views + r * kTokenTile * sources_ * row_;
      row_dots<A>(targets_, count * sources_, {asks_ + r * targets_ * row_, row_}, {views, row_}, row_,
                  w.scores, kTokenTile * sources_);
      for (std::int64_t b = 0; b < count; ++b) {
        const A* seen = views + b * sources_ * row_;
        norms(seen, first + b, r, w.rstd);
        for (std::int64_t k = 0; k < targets_; ++k)
          softmax(job_.targets[k], first + b, r, w.rstd, w.scores + (k * kTokenTile + b) * sources_);
        block_product<A>(targets_, row_, sources_, {w.scores + b * sources_, kTokenTile * sources_, 1}, seen,
                         row_, w.out, row_, false);
        for (std::int64_t k = 0; k < targets_; ++k)
          store_row(job_.targets[k].out, ((first + b) * views_ + r) * width_, width_, w.out + k * row_,
                    Write::Overwrite);
      }
    }
  }

  // 1/RMS of the sources' view r.
  void norms(const A* seen, std::int64_t t, std::int64_t r, A* rstd) const {
    A* to = job_.rstd.as<A>();
    row_squares<A>(sources_, {seen, row_}, row_, rstd);
    for (std::int64_t j = 0; j < sources_; ++j) {
      rstd[j] = A(1) / std::sqrt(rstd[j] / A(width_) + A(job_.eps));
      to[(j * tokens_ + t) * views_ + r] = rstd[j];
    }
  }

  // u . v_j -> p_j, in place.
  void softmax(const DepthAttendForward::Target& target, std::int64_t t, std::int64_t r, const A* rstd,
               A* p) const {
    A* logits = target.logits.as<A>();
    A highest = p[0] * rstd[0], total = 0;
    for (std::int64_t j = 0; j < sources_; ++j) {
      p[j] *= rstd[j];
      logits[(j * tokens_ + t) * views_ + r] = p[j];
      highest = std::max(highest, p[j]);
    }
    for (std::int64_t j = 0; j < sources_; ++j) total += p[j] = fast_exp(p[j] - highest);
    for (std::int64_t j = 0; j < sources_; ++j) p[j] /= total;
    target.lse.as<A>()[t * views_ + r] = highest + std::log(total);
  }

  const DepthAttendForward& job_;
  std::int64_t tokens_, views_, width_, row_, sources_, targets_, tile_rows_ = 0;
  std::vector<DepthViews<A>> from_;
  std::vector<A*> taps_;
  A* asks_ = nullptr;
};

}  // namespace

void run(CpuStream& stream, const DepthAttendForward& job) {
  for_acc(acc_of(job.targets.at(0).out.dtype), [&]<class A>() { Attend<A>(job).run(stream); });
}

}  // namespace strata::kernels
