// Backward of phase 2. Through the fusion to dZ; then dout = (1 - omega) dZ, ds = omega (1 - omega) dZ . (v -
// o), dlse = -ds, dv = omega dZ + ds rho (u - s rho v / D), du = ds rho v, and the partial's views back to
// the partial. The gate, e = dlogit * scale / RMS(Z): dZ = sum_r e_r W_r - Z (sum_r e_r W_r . Z) / (MD
// RMS^2), dW_r = e_r Z.
#include <omp.h>

#include "kernels/cpu/depth_merge_tile.h"
#include "kernels/cpu/depth_views_grad.h"

namespace strata::kernels {
namespace {

template <class A>
class MergeBackward {
 public:
  MergeBackward(const DepthMergeBackward& job, const Chunks& chunks, Pieces<A>& shared)
      : job_(job), chunks_(chunks), tile_(job, shared) {
    const std::int64_t M = tile_.views, row = tile_.row;
    if (tile_.merges()) {
      partial_.emplace(tile_.from(), job.dpartial, chunks, shared);
      task_.dask = M * row;
    }
    if (job.fusion == Fusion::Gate) task_.dweight = M * M * row, task_.dlogit = M + 1;
    dask_ = shared.take(chunks.count * task_.dask);
    dweight_ = shared.take(chunks.count * task_.dweight);
    dlogit_ = shared.take(chunks.count * task_.dlogit);
  }
  void pack() { tile_.pack(job_); }

  struct Working : MergeTile<A>::Working {
    A *dy, *dz, *dg, *e, *pull, *sums = nullptr;  // [tile, row], [tile, M, row], [M], [tile, M], [tile]
    Working(const MergeBackward& m, Pieces<A>& memory) : MergeTile<A>::Working(m.tile_, memory) {
      const std::int64_t M = m.tile_.views, row = m.tile_.row;
      dy = memory.take(kTokenTile * row);
      dz = memory.take(kTokenTile * M * row);
      dg = memory.take(M);
      e = memory.take(kTokenTile * M);
      pull = memory.take(kTokenTile);
      if (m.partial_) sums = memory.take(m.partial_->chunk_elements());
    }
  };

  void chunk(const Working& w, std::int64_t c) const {
    std::fill_n(dask_ + c * task_.dask, task_.dask, A(0));
    std::fill_n(dweight_ + c * task_.dweight, task_.dweight, A(0));
    std::fill_n(dlogit_ + c * task_.dlogit, task_.dlogit, A(0));
    if (partial_) partial_->start(c, w.sums);
    for (std::int64_t t = chunks_.begin(c); t < chunks_.end(c); t += kTokenTile) {
      const std::int64_t count = std::min(kTokenTile, chunks_.end(c) - t);
      tile_.expand(w, t, count);
      if (job_.fusion == Fusion::Gate) {
        const A* logits = job_.logits.as<A>();
        tile_.merge(w, t, count, [&](std::int64_t at, std::int64_t, std::int64_t) { return logits[at]; });
        through_gate(w, t, count, c);
      } else {
        through_mean(w, t, count);
      }
      unmerge(w, t, count, c);
      if (partial_) partial_->add(c, t, count, w.rows, w.views, w.sums);
    }
    if (partial_) partial_->end(c, w.sums);
  }

  // After all chunks.
  void finish() const {
    const std::int64_t M = tile_.views, D = tile_.width, row = tile_.row;
    if (partial_) {
      partial_->finish();
      sum_chunks(dask_, task_.dask);
      add_query_grad(job_.ask, M, D, dask_, row, job_.dquery, job_.dkey_norm);
    }
    if (job_.fusion != Fusion::Gate) return;
    sum_chunks(dweight_, task_.dweight);
    sum_chunks(dlogit_, task_.dlogit);
    if (job_.dgate_weight)
      for (std::int64_t m = 0; m < M * M; ++m)
        store_row(job_.dgate_weight, m * D, D, dweight_ + m * row, Write::Accumulate);
    if (A* dscale = job_.dgate_scale.as<A>()) *dscale += dlogit_[M];
    if (job_.dgate_bias) store_row(job_.dgate_bias, 0, M, dlogit_, Write::Accumulate);
  }

 private:
  // Fusion None and Mean: dz from dy.
  void through_mean(const Working& w, std::int64_t first, std::int64_t count) const {
    const std::int64_t M = tile_.views, D = tile_.width, row = tile_.row;
    const bool mean = job_.fusion == Fusion::Mean;
    for (std::int64_t m = 0; m < count * M; ++m) {
      A* dz = w.dz + m * row;
      load_padded(job_.dy, (mean ? first + m / M : first * M + m) * D, D, dz);
      if (mean)
        for (std::int64_t i = 0; i < row; ++i) dz[i] *= A(1) / A(M);
    }
  }

  void through_gate(const Working& w, std::int64_t first, std::int64_t count, std::int64_t c) const {
    const std::int64_t M = tile_.views, row = tile_.row;
    tile_.gate_products(w, count);
    for (std::int64_t b = 0; b < count; ++b) {
      load_padded(job_.dy, (first + b) * tile_.width, tile_.width, w.dy + b * row);
      gate_logits(w, first + b, b, dlogit_ + c * task_.dlogit);
    }
    block_product<A>(count, M * row, M, {w.e, M, 1}, tile_.gate(), M * row, w.dz, M * row, false);
    for (std::int64_t b = 0; b < count; ++b)
      for (std::int64_t r = 0; r < M; ++r) {
        const A g = job_.gates.as<A>()[(first + b) * M + r];
        const A *dy = w.dy + b * row, *z = w.z + (b * M + r) * row;
        A* dz = w.dz + (b * M + r) * row;
        for (std::int64_t i = 0; i < row; ++i) dz[i] += g * dy[i] - w.pull[b] * z[i];
      }
    block_product<A>(M, M * row, count, {w.e, 1, M}, w.z, M * row, dweight_ + c * task_.dweight, M * row,
                     true);
  }

  // e and pull of one token; dlogit [M + 1] += gradients of the bias and, last, of the scale.
  void gate_logits(const Working& w, std::int64_t t, std::int64_t b, A* dlogit) const {
    const std::int64_t M = tile_.views, row = tile_.row;
    const A rstd = job_.gate_rstd.as<A>()[t], scale = *job_.gate.scale.as<A>();
    row_dots<A>(1, M, {w.dy + b * row, row}, {w.z + b * M * row, row}, row, w.dg, M);
    A pull = 0;
    for (std::int64_t r = 0; r < M; ++r) {
      const A g = job_.gates.as<A>()[t * M + r], product = w.products[r * kTokenTile + b];
      const A d = w.dg[r] * g * (1 - g);
      w.e[b * M + r] = d * scale * rstd;
      pull += w.e[b * M + r] * product;
      dlogit[r] += d;
      dlogit[M] += d * product * rstd;
    }
    w.pull[b] = pull * rstd * rstd / A(M * tile_.width);
  }

  // dz -> dout, dlse; the partial's views become their gradients.
  void unmerge(const Working& w, std::int64_t first, std::int64_t count, std::int64_t c) const {
    for (std::int64_t b = 0; b < count; ++b)
      for (std::int64_t r = 0; r < tile_.views; ++r) {
        const std::int64_t at = (first + b) * tile_.views + r;
        A* dz = w.dz + (b * tile_.views + r) * tile_.row;
        if (tile_.merges())
          unmerge_view(w, at, r, dz, w.views.at(r, b), dask_ + c * task_.dask + r * tile_.row);
        if (job_.dout) store_row(job_.dout.view, at * tile_.width, tile_.width, dz, job_.dout.mode);
      }
  }

  // dz becomes dout, v its gradient.
  void unmerge_view(const Working& w, std::int64_t at, std::int64_t r, A* dz, A* v, A* dask) const {
    const std::int64_t row = tile_.row;
    const A s = job_.logits.as<A>()[at], rstd = job_.rstd.as<A>()[at];
    const A omega = tile_.omega(s, at), keep = tile_.keep(s, at);
    tile_.load_out(at, w.out);
    for (std::int64_t i = 0; i < row; ++i) w.out[i] = v[i] - w.out[i];
    const A ds = omega * keep * dot(dz, w.out, row);
    if (A* dlse = job_.dlse.view.as<A>()) put(dlse[at], -ds, job_.dlse.mode);
    const A pull = ds * s * rstd * rstd / A(tile_.width), push = ds * rstd;
    const A* u = tile_.ask(r);
    for (std::int64_t i = 0; i < row; ++i) {
      dask[i] += push * v[i];
      v[i] = omega * dz[i] + push * u[i] - pull * v[i];
      dz[i] *= keep;
    }
  }

  // Chunk 0 becomes the sum of all, in order.
  void sum_chunks(A* parts, std::int64_t each) const {
    if (chunks_.count > 1) add_partials(parts + each, chunks_.count - 1, each, parts);
  }

  const DepthMergeBackward& job_;
  const Chunks& chunks_;
  MergeTile<A> tile_;
  std::optional<DepthViewsGrad<A>> partial_;
  struct {
    std::int64_t dask = 0, dweight = 0, dlogit = 0;
  } task_;  // a chunk's elements
  A *dask_, *dweight_, *dlogit_;
};

template <class A>
void backward(CpuStream& stream, const DepthMergeBackward& job) {
  const Chunks chunks(job.out.dims[0]);
  if (chunks.count == 0) return;
  Pieces<A> shared_sizes, task_sizes;
  const MergeBackward<A> measured(job, chunks, shared_sizes);
  typename MergeBackward<A>::Working(measured, task_sizes);
  const std::int64_t each = task_sizes.used();
  A* memory = stream.scratch<A>(shared_sizes.used() + each * omp_get_max_threads());
  Pieces<A> shared(memory);
  MergeBackward<A> merge(job, chunks, shared);
  merge.pack();
  parallel_for(chunks.count, [&](std::int64_t c) {
    Pieces<A> task(memory + shared_sizes.used() + each * omp_get_thread_num());
    merge.chunk(typename MergeBackward<A>::Working(merge, task), c);
  });
  merge.finish();
}

}  // namespace

void run(CpuStream& stream, const DepthMergeBackward& job) {
  for_acc(acc_of(job.out.dtype), [&]<class A>() { backward<A>(stream, job); });
}

}  // namespace strata::kernels
