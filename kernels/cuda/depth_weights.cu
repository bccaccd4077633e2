// The softmax over all sources from the parts of the two phases: w_j = exp(s_j - lse) (1 - omega), and the
// partial's omega = sigmoid(s - lse).
#include "kernels/cuda/depth_views.cuh"
#include "kernels/cuda/jobs.h"
#include "kernels/cuda/reduce.cuh"

namespace strata::kernels {
namespace {

using namespace strata::cuda;

// One thread a token and view.
template <class A>
__global__ void weights_kernel(const A* logits, const A* lse, const A* partial, A* weights,
                               std::int64_t tokens, int sources, int views) {
  const std::int64_t t = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x, r = blockIdx.y;
  if (t >= tokens) return;
  const std::int64_t at = t * views + r, columns = sources + (partial ? 1 : 0);
  const A omega = partial ? sigmoid(partial[at] - lse[at]) : A(0);
  for (std::int64_t j = 0; j < sources; ++j)
    weights[(r * columns + j) * tokens + t] =
        std::exp(logits[j * tokens * views + at] - lse[at]) * (A(1) - omega);
  if (partial) weights[(r * columns + sources) * tokens + t] = omega;
}

template <class A>
void weights(CudaStream& stream, const DepthWeights& job) {
  STRATA_CHECK(job.logits.dims.rank == 3, "depth_weights: logits are ", job.logits.dims.text());
  const std::int64_t N = job.logits.dims[0], T = job.logits.dims[1], M = job.logits.dims[2];
  Operands<A> operands(job.kName, T);
  const A* logits = operands.full(job.logits, {N, T, M}, "logits");
  const A* lse = operands.full(job.lse, {T, M}, "lse");
  const A* partial = operands.full(job.partial_logits, {T, M}, "partial_logits");
  A* weights = operands.full(job.weights, {M, N + (partial ? 1 : 0), T}, "weights");
  if (T == 0) return;
  launch(weights_kernel<A>, {dim3(blocks_for(T, 128), unsigned(M)), 128, 0, stream.handle()}, logits, lse,
         partial, weights, T, int(N), int(M));
}

}  // namespace

void run(CudaStream& stream, const DepthWeights& job) {
  for_acc(job.logits.dtype, [&]<class A>() { weights<A>(stream, job); });
}

}  // namespace strata::kernels
