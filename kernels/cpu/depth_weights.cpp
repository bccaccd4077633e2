// The softmax over all sources from the parts of the two phases: w_j = exp(s_j - lse) (1 - omega), and the
// partial's omega = sigmoid(s - lse).
#include "kernels/cpu/exp.h"
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class A>
void weights(const DepthWeights& job) {
  const std::int64_t N = job.logits.dims[0], T = job.logits.dims[1], M = job.logits.dims[2];
  const std::int64_t columns = job.weights.dims[1];
  const A *logits = job.logits.as<A>(), *lse = job.lse.as<A>(), *partial = job.partial_logits.as<A>();
  A* w = job.weights.as<A>();
  parallel_for(T, [&](std::int64_t t) {
    for (std::int64_t r = 0; r < M; ++r) {
      const A omega = partial ? sigmoid(partial[t * M + r] - lse[t * M + r]) : A(0);
      for (std::int64_t j = 0; j < N; ++j)
        w[(r * columns + j) * T + t] = fast_exp(logits[(j * T + t) * M + r] - lse[t * M + r]) * (1 - omega);
      if (partial) w[(r * columns + N) * T + t] = omega;
    }
  });
}

}  // namespace

void run(CpuStream&, const DepthWeights& job) {
  for_acc(job.logits.dtype, [&]<class A>() { weights<A>(job); });
}

}  // namespace strata::kernels
