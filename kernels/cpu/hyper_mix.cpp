// Reading from and writing to the residual streams of hyper-connections, with coefficients per token:
// z = sum_i pre_i X_i;  X'_i = sum_j res_ij X_j + post_i y.
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_io.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class A>
A dot(const A* a, const A* b, std::int64_t n) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class A>
void scale(A* to, A factor, const A* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = factor * from[i];
}

template <class A>
void add_scaled(A* to, A factor, const A* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

// Runs f<A>(t, buffer) over tokens in chunks, each chunk with `count` values of working memory.
template <class A, class F>
void over_tokens(std::int64_t tokens, std::int64_t count, F&& f) {
  const Chunks chunks(tokens);
  parallel_for(chunks.count, [&](std::int64_t c) {
    std::vector<A> buffer(count);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) f(t, buffer.data());
  });
}

// dcoef of one token: `values` go to [begin, begin + count), the rest is cleared when overwriting.
template <class A>
void put_coef(const Grad& dcoef, std::int64_t t, std::int64_t C, std::int64_t begin, std::int64_t count,
              const A* values) {
  A* row = dcoef.view.as<A>() + t * C;
  if (dcoef.mode == Write::Overwrite) std::fill(row, row + C, A(0));
  for (std::int64_t i = 0; i < count; ++i) row[begin + i] += values[i];
}

template <class A>
void read(const HyperReadForward& job) {
  const std::int64_t n = job.x.dims[1], D = job.x.dims[2], C = 2 * n + n * n;
  const A* coef = job.coef.as<A>();
  over_tokens<A>(job.x.dims[0], 2 * D, [&](std::int64_t t, A* buffer) {
    A *z = buffer, *x = buffer + D;
    std::fill(z, z + D, A(0));
    for (std::int64_t i = 0; i < n; ++i) {
      load_row(job.x, (t * n + i) * D, D, x);
      add_scaled(z, coef[t * C + i], x, D);
    }
    store_row(job.z, t * D, D, z, Write::Overwrite);
  });
}

template <class A>
void read_backward(const HyperReadBackward& job) {
  const std::int64_t n = job.x.dims[1], D = job.x.dims[2], C = 2 * n + n * n;
  const A* coef = job.coef.as<A>();
  over_tokens<A>(job.x.dims[0], 2 * D + n, [&](std::int64_t t, A* buffer) {
    A *dz = buffer, *x = buffer + D, *dpre = buffer + 2 * D;
    load_row(job.dz, t * D, D, dz);
    for (std::int64_t i = 0; i < n; ++i) {
      load_row(job.x, (t * n + i) * D, D, x);
      dpre[i] = dot(dz, x, D);
      if (!job.dx) continue;
      scale(x, coef[t * C + i], dz, D);
      store_row(job.dx.view, (t * n + i) * D, D, x, job.dx.mode);
    }
    if (job.dcoef) put_coef(job.dcoef, t, C, 0, n, dpre);
  });
}

template <class A>
void write(const HyperWriteForward& job) {
  const std::int64_t n = job.next.dims[1], D = job.next.dims[2], C = 2 * n + n * n;
  const A* coef = job.coef.as<A>();
  over_tokens<A>(job.next.dims[0], (n + 2) * D, [&](std::int64_t t, A* buffer) {
    A *y = buffer, *next = buffer + D, *x = buffer + 2 * D;
    const A *post = coef + t * C + n, *res = coef + t * C + 2 * n;
    load_row(job.y, t * D, D, y);
    if (job.x) load_row(job.x, t * n * D, n * D, x);
    for (std::int64_t i = 0; i < n; ++i) {
      scale(next, post[i], y, D);
      for (std::int64_t j = 0; j < n && job.x; ++j) add_scaled(next, res[i * n + j], x + j * D, D);
      store_row(job.next, (t * n + i) * D, D, next, Write::Overwrite);
    }
  });
}

template <class A>
void write_backward(const HyperWriteBackward& job) {
  const std::int64_t n = job.dnext.dims[1], D = job.dnext.dims[2], C = 2 * n + n * n;
  const A* coef = job.coef.as<A>();
  over_tokens<A>(job.dnext.dims[0], (2 * n + 2) * D + n + n * n, [&](std::int64_t t, A* buffer) {
    A *dnext = buffer, *x = dnext + n * D, *y = x + n * D, *row = y + D,
      *dcoef = row + D;  // dcoef: post | res
    const A *post = coef + t * C + n, *res = coef + t * C + 2 * n;
    load_row(job.dnext, t * n * D, n * D, dnext);
    load_row(job.y, t * D, D, y);
    if (job.x) load_row(job.x, t * n * D, n * D, x);
    if (job.dy) {
      std::fill(row, row + D, A(0));
      for (std::int64_t i = 0; i < n; ++i) add_scaled(row, post[i], dnext + i * D, D);
      store_row(job.dy.view, t * D, D, row, job.dy.mode);
    }
    for (std::int64_t j = 0; j < n && job.dx; ++j) {
      std::fill(row, row + D, A(0));
      for (std::int64_t i = 0; i < n; ++i) add_scaled(row, res[i * n + j], dnext + i * D, D);
      store_row(job.dx.view, (t * n + j) * D, D, row, job.dx.mode);
    }
    if (!job.dcoef) return;
    for (std::int64_t i = 0; i < n; ++i) {
      dcoef[i] = dot(dnext + i * D, y, D);
      for (std::int64_t j = 0; j < n; ++j)
        dcoef[n + i * n + j] = job.x ? dot(dnext + i * D, x + j * D, D) : A(0);
    }
    put_coef(job.dcoef, t, C, n, n + n * n, dcoef);
  });
}

template <class A>
void spread(const SpreadStreams& job) {
  const std::int64_t n = job.y.dims[1], D = job.y.dims[2];
  over_tokens<A>(job.y.dims[0], D, [&](std::int64_t t, A* x) {
    load_row(job.x, t * D, D, x);
    for (std::int64_t k = 0; k < D; ++k) x[k] *= A(job.scale);
    for (std::int64_t i = 0; i < n; ++i) store_row(job.y, (t * n + i) * D, D, x, job.mode);
  });
}

template <class A>
void sum(const SumStreams& job) {
  const std::int64_t n = job.x.dims[1], D = job.x.dims[2];
  over_tokens<A>(job.x.dims[0], 2 * D, [&](std::int64_t t, A* buffer) {
    A *total = buffer, *x = buffer + D;
    std::fill(total, total + D, A(0));
    for (std::int64_t i = 0; i < n; ++i) {
      load_row(job.x, (t * n + i) * D, D, x);
      add_scaled(total, A(job.scale), x, D);
    }
    store_row(job.y, t * D, D, total, job.mode);
  });
}

}  // namespace

void run(CpuStream&, const HyperReadForward& job) {
  for_acc(job.coef.dtype, [&]<class A>() { read<A>(job); });
}
void run(CpuStream&, const HyperReadBackward& job) {
  for_acc(job.coef.dtype, [&]<class A>() { read_backward<A>(job); });
}
void run(CpuStream&, const HyperWriteForward& job) {
  for_acc(job.coef.dtype, [&]<class A>() { write<A>(job); });
}
void run(CpuStream&, const HyperWriteBackward& job) {
  for_acc(job.coef.dtype, [&]<class A>() { write_backward<A>(job); });
}
void run(CpuStream&, const SpreadStreams& job) {
  for_acc(acc_of(job.x.dtype), [&]<class A>() { spread<A>(job); });
}
void run(CpuStream&, const SumStreams& job) {
  for_acc(acc_of(job.x.dtype), [&]<class A>() { sum<A>(job); });
}

}  // namespace strata::kernels
