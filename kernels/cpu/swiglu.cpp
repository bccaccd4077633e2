// y = silu(g) u with x = g | u, silu(g) = g s, s = sigmoid(g):
// dg = dy u s (1 + g (1 - s)), du = dy g s.
#include "kernels/cpu/exp.h"
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class T>
void forward(const SwiGluForward& job) {
  using A = Acc<T>;
  const std::int64_t rows = job.y.dims[0], F = job.y.dims[1];
  const T* x = job.x.as<T>();
  T* y = job.y.as<T>();
  parallel_for(rows, [&](std::int64_t t) {
    const T *gate = x + t * 2 * F, *up = gate + F;
    T* to = y + t * F;
    for (std::int64_t i = 0; i < F; ++i) to[i] = T(A(gate[i]) * sigmoid(A(gate[i])) * A(up[i]));
  });
}

// The mode is a template argument: a branch inside would keep the loop from becoming vector code.
template <class T, class G, Write kMode>
void backward(const SwiGluBackward& job) {
  using A = Acc<T>;
  const std::int64_t rows = job.dy.dims[0], F = job.dy.dims[1];
  const T *x = job.x.as<T>(), *dy = job.dy.as<T>();
  G* dx = job.dx.view.as<G>();
  parallel_for(rows, [&](std::int64_t t) {
    const T *gate = x + t * 2 * F, *up = gate + F, *dyr = dy + t * F;
    G *dgate = dx + t * 2 * F, *dup = dgate + F;
#pragma omp simd
    for (std::int64_t i = 0; i < F; ++i) {
      const A g = A(gate[i]), s = sigmoid(g), d = A(dyr[i]);
      put(dgate[i], d * A(up[i]) * s * (A(1) + g * (A(1) - s)), kMode);
      put(dup[i], d * g * s, kMode);
    }
  });
}

template <class T, class G>
void backward(const SwiGluBackward& job) {
  if (job.dx.mode == Write::Accumulate)
    backward<T, G, Write::Accumulate>(job);
  else
    backward<T, G, Write::Overwrite>(job);
}

}  // namespace

void run(CpuStream&, const SwiGluForward& job) {
  for_float(job.x.dtype, [&]<class T>() { forward<T>(job); });
}

void run(CpuStream&, const SwiGluBackward& job) {
  if (!job.dx) return;
  for_float(job.x.dtype, [&]<class T>() {
    if (job.dx.view.dtype != job.x.dtype)
      backward<T, Acc<T>>(job);
    else
      backward<T, T>(job);
  });
}

}  // namespace strata::kernels
