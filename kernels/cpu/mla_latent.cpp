// latent = w x rstd over the first R columns, key = the other P columns turned by position; and back:
// dx = rstd (g - x rstd^2 mean(g x)), g = dlatent w;  dw = sum_t dlatent x rstd;  dkey turned the other way.
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rotation.h"
#include "kernels/jobs.h"

#include <cmath>

namespace strata::kernels {
namespace {

template <class T>
void forward(CpuStream& stream, const MlaLatentForward& job) {
  using A = Acc<T>;
  const std::int64_t rows = job.x.dims[0], R = job.weight.dims[0], P = job.x.dims[1] - R;
  using Table = RotationTable<A>;
  const Table table(stream.scratch<double>(Table::size(job.length, P, job.start)), job.length, P, job.theta,
                    false, job.start);
  const T* x = job.x.as<T>();
  const A* w = job.weight.as<A>();
  T *latent = job.latent.as<T>(), *key = job.key.as<T>();
  A* rstd = job.rstd.as<A>();
  parallel_for(rows, [&](std::int64_t t) {
    const T* xr = x + t * (R + P);
    A squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < R; ++i) squares += A(xr[i]) * A(xr[i]);
    const A r = A(1) / std::sqrt(squares / A(R) + A(job.eps));
    rstd[t] = r;
    for (std::int64_t i = 0; i < R; ++i) latent[t * R + i] = T(A(xr[i]) * r * w[i]);
    const std::int64_t position = t % job.length;
    rotate<RopePairing::Interleaved>(table.pairs(), xr + R, table.cosine(position), table.sine(position),
                                     key + t * P, Write::Overwrite);
  });
}

// One row of the norm's input gradient; its share of dw goes to `dw`.
template <class T, class A>
void norm_row(const T* dy, const T* x, const A* w, A r, std::int64_t R, T* dx, Write mode, A* dw) {
  if (dw)
    for (std::int64_t i = 0; i < R; ++i) dw[i] += A(dy[i]) * A(x[i]) * r;
  if (!dx) return;
  A dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t i = 0; i < R; ++i) dot += A(dy[i]) * w[i] * A(x[i]);
  const A k = dot * r * r / A(R);
  for (std::int64_t i = 0; i < R; ++i) put(dx[i], r * (A(dy[i]) * w[i] - A(x[i]) * k), mode);
}

template <class T>
void clear(T* to, std::int64_t n, Write mode) {
  if (mode == Write::Overwrite) std::fill(to, to + n, T(0));
}

template <class T>
void backward(CpuStream& stream, const MlaLatentBackward& job) {
  using A = Acc<T>;
  const std::int64_t rows = job.x.dims[0], R = job.weight.dims[0], P = job.x.dims[1] - R;
  const Chunks chunks(rows);
  const T *dlatent = job.dlatent.as<T>(), *dkey = job.dkey.as<T>(), *x = job.x.as<T>();
  const A *w = job.weight.as<A>(), *rstd = job.rstd.as<A>();
  T* dx = job.dx.view.as<T>();
  const Write mode = job.dx.mode;
  A* dw = dlatent ? job.dweight.as<A>() : nullptr;
  using Table = RotationTable<A>;
  const std::int64_t table_size = Table::size(job.length, P);
  double* scratch = stream.scratch<double>(table_size + chunks.count * R);
  const Table table(scratch, job.length, P, job.theta, true);
  A* partial = reinterpret_cast<A*>(scratch + table_size);  // [chunks, R]
  parallel_for(chunks.count, [&](std::int64_t c) {
    A* mine = dw ? partial + c * R : nullptr;
    if (mine) std::fill(mine, mine + R, A(0));
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      T* dxr = dx ? dx + t * (R + P) : nullptr;
      if (dlatent)
        norm_row(dlatent + t * R, x + t * (R + P), w, rstd[t], R, dxr, mode, mine);
      else if (dxr)
        clear(dxr, R, mode);
      if (!dxr) continue;
      const std::int64_t position = t % job.length;
      if (!dkey)
        clear(dxr + R, P, mode);
      else
        rotate<RopePairing::Interleaved>(table.pairs(), dkey + t * P, table.cosine(position),
                                         table.sine(position), dxr + R, mode);
    }
  });
  if (dw) add_partials(partial, chunks.count, R, dw);
}

}  // namespace

void run(CpuStream& stream, const MlaLatentForward& job) {
  for_float(job.x.dtype, [&]<class T>() { forward<T>(stream, job); });
}

void run(CpuStream& stream, const MlaLatentBackward& job) {
  for_float(job.x.dtype, [&]<class T>() { backward<T>(stream, job); });
}

}  // namespace strata::kernels
