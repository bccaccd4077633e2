#include "train/layout.h"

#include "base/field_text.h"
#include "pipeline/cut.h"

namespace strata::train {
namespace {

bool can_be_cut(const RunConfig& config, int pipeline) {
  const pipeline::ParallelSection& p = config.parallel;
  if (pipeline == 1) return p.virtual_pipeline_model_parallel_size == 1;
  try {
    pipeline::cut_layers(config.model, pipeline * int(p.virtual_pipeline_model_parallel_size), {});
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// What so many ranks can be: "1 x 1, 1 x 2, 2 x 1", pipeline times expert.
std::string layouts(const RunConfig& config, int ranks) {
  const int experts = config.model.has_moe() ? int(config.model.n_routed_experts) : 1;
  std::vector<std::string> all;
  for (int pipeline = 1; pipeline <= ranks; ++pipeline) {
    if (ranks % pipeline != 0 || !can_be_cut(config, pipeline)) continue;
    for (int expert = 1; expert <= ranks / pipeline; ++expert)
      if (ranks / pipeline % expert == 0 && experts % expert == 0)
        all.push_back(concat(pipeline, " x ", expert));
  }
  return join(all, ", ");
}

}  // namespace

comm::MeshShape mesh_shape(const RunConfig& config, int ranks) {
  const pipeline::ParallelSection& p = config.parallel;
  const int pipeline = p.ranks(), expert = int(p.expert_model_parallel_size);
  const int least = pipeline * expert, below = ranks / least * least;
  if (ranks % least != 0)
    throw InputError(
        concat("parallel.pipeline_model_parallel_size ", pipeline, " and expert_model_parallel_size ", expert,
               " need a multiple of ", least, " ranks, there ", ranks == 1 ? "is 1" : concat("are ", ranks),
               ": start ", below > 0 ? concat(below, " or ") : "", below + least,
               " with mpirun -n, or with backend.comm threads and backend.threads_ranks; ", ranks,
               ranks == 1 ? " rank" : " ranks", " can be pipeline x expert ", layouts(config, ranks)));
  return {.pipeline = pipeline, .data = ranks / pipeline, .expert = expert};
}

}  // namespace strata::train
