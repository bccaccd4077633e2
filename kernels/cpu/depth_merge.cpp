// Phase 2 of the retrieval over depth: the partial sum joins with weight omega = sigmoid(s - lse), then the
// views become one: their mean, or sum_r g_r Z_r, g = sigmoid(scale * W Z / RMS(Z) + bias).
#include <omp.h>

#include <cmath>

#include "kernels/cpu/depth_merge_tile.h"
#include "kernels/cpu/parallel.h"

namespace strata::kernels {
namespace {

template <class A>
class Merge {
 public:
  Merge(const DepthMergeForward& job, Pieces<A>& shared) : job_(job), tile_(job, shared) {}
  void pack() { tile_.pack(job_); }

  struct Working : MergeTile<A>::Working {
    A *y, *g;  // [row], [M]
    Working(const Merge& m, Pieces<A>& memory)
        : MergeTile<A>::Working(m.tile_, memory),
          y(memory.take(m.tile_.row)),
          g(memory.take(m.tile_.views)) {}
  };

  void run(const Working& w, std::int64_t first, std::int64_t count) const {
    tile_.expand(w, first, count);
    tile_.merge(w, first, count,
                [&](std::int64_t at, std::int64_t r, std::int64_t b) { return score(w, at, r, b); });
    if (job_.fusion == Fusion::Gate) tile_.gate_products(w, count);
    for (std::int64_t b = 0; b < count; ++b) fuse(w, first + b, b);
  }

 private:
  A score(const Working& w, std::int64_t at, std::int64_t r, std::int64_t b) const {
    const A* v = w.views.at(r, b);
    const A rstd = A(1) / std::sqrt(dot(v, v, tile_.row) / A(tile_.width) + A(job_.eps));
    const A s = dot(tile_.ask(r), v, tile_.row) * rstd;
    job_.rstd.as<A>()[at] = rstd;
    job_.logits.as<A>()[at] = s;
    return s;
  }

  void fuse(const Working& w, std::int64_t t, std::int64_t b) const {
    const std::int64_t M = tile_.views, row = tile_.row, D = tile_.width;
    const A* z = w.z + b * M * row;
    if (job_.fusion == Fusion::None) {
      for (std::int64_t r = 0; r < M; ++r)
        store_row(job_.y, (t * M + r) * D, D, z + r * row, Write::Overwrite);
      return;
    }
    if (job_.fusion == Fusion::Gate)
      gates(w, z, t, b);
    else
      std::fill_n(w.g, M, A(1) / A(M));
    block_product<A>(1, row, M, {w.g, M, 1}, z, row, w.y, row, false);
    store_row(job_.y, t * D, D, w.y, Write::Overwrite);
  }

  void gates(const Working& w, const A* z, std::int64_t t, std::int64_t b) const {
    const std::int64_t M = tile_.views;
    const A rstd = A(1) / std::sqrt(dot(z, z, M * tile_.row) / A(M * tile_.width) + A(job_.eps));
    const A scale = *job_.gate.scale.as<A>(), *bias = job_.gate.bias.as<A>();
    job_.gate_rstd.as<A>()[t] = rstd;
    for (std::int64_t r = 0; r < M; ++r)
      job_.gates.as<A>()[t * M + r] = w.g[r] =
          sigmoid(scale * w.products[r * kTokenTile + b] * rstd + bias[r]);
  }

  const DepthMergeForward& job_;
  MergeTile<A> tile_;
};

template <class A>
void forward(CpuStream& stream, const DepthMergeForward& job) {
  Pieces<A> shared_sizes, task_sizes;
  const Merge<A> measured(job, shared_sizes);
  typename Merge<A>::Working(measured, task_sizes);
  const std::int64_t each = task_sizes.used();
  A* memory = stream.scratch<A>(shared_sizes.used() + each * omp_get_max_threads());
  Pieces<A> shared(memory);
  Merge<A> merge(job, shared);
  merge.pack();
  const Chunks chunks(job.out.dims[0]);
  parallel_for(chunks.count, [&](std::int64_t c) {
    Pieces<A> task(memory + shared_sizes.used() + each * omp_get_thread_num());
    const typename Merge<A>::Working w(merge, task);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); t += kTokenTile)
      merge.run(w, t, std::min(kTokenTile, chunks.end(c) - t));
  });
}

}  // namespace

void run(CpuStream& stream, const DepthMergeForward& job) {
  for_acc(acc_of(job.out.dtype), [&]<class A>() { forward<A>(stream, job); });
}

}  // namespace strata::kernels
