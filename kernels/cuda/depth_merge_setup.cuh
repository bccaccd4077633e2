// From a merge job of either direction to what its kernels take.
#pragma once
#include "kernels/cuda/depth_merge.cuh"
#include "kernels/cuda/depth_setup.cuh"

namespace strata::cuda {

// All but the logits. `setup` has the partial source and the query already, if there are any.
template <class A, class Job>
Merge<A> merge_operands(DepthSetup<A>& setup, const Job& job) {
  const std::int64_t T = job.out.dims[0], M = job.out.dims[1], D = job.out.dims[2];
  Operands<A>& operands = setup.operands;
  Merge<A> p{};
  p.out = operands.input(job.out, job.out.dims, "out");
  if (job.partial.value) p.lse = operands.full(job.lse, {T, M}, "lse");
  p.fusion = job.fusion;
  if (job.fusion == Fusion::Gate) {
    p.gate = operands.full(job.gate.weight, {M, M * D}, "gate weight");
    p.scale = operands.full(job.gate.scale, {1}, "gate scale");
    p.bias = operands.full(job.gate.bias, {M}, "gate bias");
  }
  return p;
}

// What a fusion makes of Z, and what its gradient looks like.
inline Dims fused_dims(const Dims& z, Fusion fusion) { return fusion == Fusion::None ? z : Dims{z[0], z[2]}; }

}  // namespace strata::cuda
