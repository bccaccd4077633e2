#include "train/layout.h"

namespace strata::train {

comm::MeshShape mesh_shape(const RunConfig& config, int ranks) {
  const pipeline::ParallelSection& p = config.parallel;
  const int pipeline = p.ranks(), expert = int(p.expert_model_parallel_size);
  const int least = pipeline * expert;
  if (ranks % least != 0)
    throw InputError(concat("parallel.pipeline_model_parallel_size ", pipeline,
                            " and expert_model_parallel_size ", expert, " need a multiple of ", least,
                            " ranks, there ", ranks == 1 ? "is 1" : concat("are ", ranks), ": start ",
                            (ranks / least + 1) * least,
                            " with mpirun -n, or with backend.comm threads and backend.threads_ranks"));
  return {.pipeline = pipeline, .data = ranks / pipeline, .expert = expert};
}

}  // namespace strata::train
