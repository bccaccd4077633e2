// Updates of one bucket, element by element. All arithmetic is in the master's type.
#include <cmath>

#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

// Refreshes the copy that kernels read.
template <class A>
void publish(const View& value, const A* w, std::int64_t begin, std::int64_t end) {
  if (!value || value.data == static_cast<const void*>(w)) return;
  for_float(value.dtype, [&]<class T>() {
    T* to = value.as<T>();
    for (std::int64_t i = begin; i < end; ++i) to[i] = T(w[i]);
  });
}

template <class A>
void step(const AdamW& job) {
  A *w = job.master.as<A>(), *m = job.m.as<A>(), *v = job.v.as<A>();
  const A* grad = job.grad.as<A>();
  const A beta1 = A(job.beta1), beta2 = A(job.beta2), rest1 = A(1 - job.beta1), rest2 = A(1 - job.beta2);
  const A unbias1 = A(1 / job.correction1), unbias2 = A(1 / job.correction2);
  const A lr = A(job.lr), eps = A(job.eps), decay = A(job.lr * job.weight_decay), scale = A(job.grad_scale);
  parallel_elements(job.master.numel(), [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const A g = grad[i] * scale;
      m[i] = beta1 * m[i] + rest1 * g;
      v[i] = beta2 * v[i] + rest2 * g * g;
      const A kept = w[i] - decay * w[i];
      w[i] = kept - lr * (m[i] * unbias1) / (std::sqrt(v[i] * unbias2) + eps);
    }
    publish(job.value, w, begin, end);
  });
}

template <class A>
void step(const Sgd& job) {
  A *w = job.master.as<A>(), *buffer = job.momentum_buffer.as<A>();
  const A* grad = job.grad.as<A>();
  const A lr = A(job.lr), momentum = A(job.momentum), decay = A(job.weight_decay), scale = A(job.grad_scale);
  parallel_elements(job.master.numel(), [&](std::int64_t begin, std::int64_t end) {
    if (buffer) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        buffer[i] = momentum * buffer[i] + scale * grad[i];
        w[i] -= lr * (buffer[i] + decay * w[i]);
      }
    } else {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) w[i] -= lr * (scale * grad[i] + decay * w[i]);
    }
    publish(job.value, w, begin, end);
  });
}

}  // namespace

void run(CpuStream&, const AdamW& job) {
  for_acc(job.master.dtype, [&]<class A>() { step<A>(job); });
}

void run(CpuStream&, const Sgd& job) {
  for_acc(job.master.dtype, [&]<class A>() { step<A>(job); });
}

}  // namespace strata::kernels
