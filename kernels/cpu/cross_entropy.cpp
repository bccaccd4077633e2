// Cross entropy of logits [T,V] against labels, and its gradient softmax - onehot; label < 0: not counted.
#include <cmath>

#include "kernels/cpu/exp.h"
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class A>
void forward(const CrossEntropyForward& job) {
  const std::int64_t T = job.logits.dims[0], V = job.logits.dims[1];
  const std::int32_t* labels = job.labels.as<std::int32_t>();
  const A* logits = job.logits.as<A>();
  A *loss = job.loss.as<A>(), *lse = job.lse.as<A>();
  parallel_for(T, [&](std::int64_t t) {
    const A* row = logits + t * V;
    A high = row[0];
#pragma omp simd reduction(max : high)
    for (std::int64_t v = 1; v < V; ++v) high = row[v] > high ? row[v] : high;
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t v = 0; v < V; ++v) sum += fast_exp(row[v] - high);
    lse[t] = high + std::log(sum);
    loss[t] = labels[t] < 0 ? A(0) : lse[t] - row[labels[t]];
  });
}

template <class A, class G>
void backward(const CrossEntropyBackward& job) {
  const std::int64_t T = job.logits.dims[0], V = job.logits.dims[1];
  const std::int32_t* labels = job.labels.as<std::int32_t>();
  const A *logits = job.logits.as<A>(), *lse = job.lse.as<A>();
  const A scale = A(job.scale) * *job.dloss.as<A>();
  G* dlogits = job.dlogits.as<G>();
  parallel_for(T, [&](std::int64_t t) {
    const A* row = logits + t * V;
    G* out = dlogits + t * V;
    if (labels[t] < 0) return void(std::fill(out, out + V, G(0)));
    const A factor = scale, shift = lse[t], hit = factor * (fast_exp(row[labels[t]] - shift) - A(1));
#pragma omp simd
    for (std::int64_t v = 0; v < V; ++v) out[v] = G(factor * fast_exp(row[v] - shift));
    out[labels[t]] = G(hit);
  });
}

}  // namespace

void run(CpuStream&, const CrossEntropyForward& job) {
  for_acc(job.logits.dtype, [&]<class A>() { forward<A>(job); });
}
void run(CpuStream&, const CrossEntropyBackward& job) {
  for_acc(job.logits.dtype, [&]<class A>() {
    if (job.dlogits.dtype == DType::BFloat16)
      backward<A, bfloat16>(job);
    else
      backward<A, A>(job);
  });
}

}  // namespace strata::kernels
