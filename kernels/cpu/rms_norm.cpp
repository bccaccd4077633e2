// y = w * x / sqrt(mean(x^2) + eps), and its gradients:
// dx = rstd (g - x rstd^2 mean(g x)), g = dy w;  dw = sum_t dy x rstd.
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

#include <cmath>

namespace strata::kernels {
namespace {

template <class T>
void forward(const RmsNormForward& job) {
  using A = Acc<T>;
  const std::int64_t rows = job.x.dims[0], D = job.x.dims[1];
  const T* x = job.x.as<T>();
  const A* w = job.weight.as<A>();
  T* y = job.y.as<T>();
  A* rstd = job.rstd.as<A>();
  parallel_for(rows, [&](std::int64_t t) {
    const T* xr = x + t * D;
    T* yr = y + t * D;
    A squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < D; ++i) squares += A(xr[i]) * A(xr[i]);
    const A r = A(1) / std::sqrt(squares / A(D) + A(job.eps));
    rstd[t] = r;
    if (!y) return;
    if (w)
      for (std::int64_t i = 0; i < D; ++i) yr[i] = T(A(xr[i]) * r * w[i]);
    else
      for (std::int64_t i = 0; i < D; ++i) yr[i] = T(A(xr[i]) * r);
  });
}

template <class T, class G>
void backward(CpuStream& stream, const RmsNormBackward& job) {
  using A = Acc<T>;
  const std::int64_t rows = job.x.dims[0], D = job.x.dims[1];
  const Chunks chunks(rows);
  const T *dy = job.dy.as<T>(), *x = job.x.as<T>();
  const A *w = job.weight.as<A>(), *rstd = job.rstd.as<A>();
  G* dx = job.dx.view.as<G>();
  A* dw = job.dweight.as<A>();
  A* partial = dw ? stream.scratch<A>(chunks.count * D) : nullptr;
  parallel_for(chunks.count, [&](std::int64_t c) {
    A* mine = partial ? partial + c * D : nullptr;
    if (mine) std::fill(mine, mine + D, A(0));
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      const T *dyr = dy + t * D, *xr = x + t * D;
      const A r = rstd[t];
      if (mine)
        for (std::int64_t i = 0; i < D; ++i) mine[i] += A(dyr[i]) * A(xr[i]) * r;
      if (!dx) continue;
      A dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t i = 0; i < D; ++i) dot += A(dyr[i]) * (w ? w[i] : A(1)) * A(xr[i]);
      const A k = dot * r * r / A(D);
      for (std::int64_t i = 0; i < D; ++i)
        put(dx[t * D + i], r * (A(dyr[i]) * (w ? w[i] : A(1)) - A(xr[i]) * k), job.dx.mode);
    }
  });
  if (dw) add_partials(partial, chunks.count, D, dw);
}

}  // namespace

void run(CpuStream&, const RmsNormForward& job) {
  for_float(job.x.dtype, [&]<class T>() { forward<T>(job); });
}

void run(CpuStream& stream, const RmsNormBackward& job) {
  for_float(job.x.dtype, [&]<class T>() {
    if (job.dx && job.dx.view.dtype != job.x.dtype)
      backward<T, Acc<T>>(stream, job);
    else
      backward<T, T>(stream, job);
  });
}

}  // namespace strata::kernels
