#include "comm/mesh.h"

#include "base/error.h"

namespace strata::comm {
namespace {

void check_shape(const MeshShape& shape, int ranks) {
  if (shape.pipeline < 1 || shape.data < 1 || shape.expert < 1)
    throw InputError(concat("parallel sizes are at least 1, got pipeline ", shape.pipeline, ", data ",
                            shape.data, ", expert ", shape.expert));
  if (shape.data % shape.expert != 0)
    throw InputError(concat("data ", shape.data, " is not a multiple of expert ", shape.expert,
                            ": expert groups lie inside the data group"));
  if (shape.world() != ranks)
    throw InputError(concat("pipeline ", shape.pipeline, " x data ", shape.data, " needs ", shape.world(),
                            " ranks, but the run has ", ranks));
}

// `count` ranks from `first`, `step` apart.
std::vector<int> ranks_from(int first, int count, int step) {
  std::vector<int> ranks(count);
  for (int i = 0; i < count; ++i) ranks[i] = first + i * step;
  return ranks;
}

}  // namespace

Mesh::Mesh(World& world, MeshShape shape) : world_(world), shape_(shape) {
  check_shape(shape, world.size());
  const int replicas = shape.data / shape.expert, stage = shape.rank_of(pipeline_rank(), 0);
  all_ = world.group("all", ranks_from(0, shape.world(), 1));
  pipeline_ = world.group("pipeline", ranks_from(data_rank(), shape.pipeline, shape.data));
  data_ = world.group("data", ranks_from(stage, shape.data, 1));
  expert_ = world.group("expert", ranks_from(stage + data_rank() - expert_rank(), shape.expert, 1));
  expert_data_ = world.group("expert_data", ranks_from(stage + expert_rank(), replicas, shape.expert));
}

std::string Mesh::position(int world_rank) const {
  const int data = shape_.data_rank(world_rank);
  return concat("pp ", shape_.pipeline_rank(world_rank), "/", shape_.pipeline, " dp ", data, "/", shape_.data,
                " ep ", data % shape_.expert, "/", shape_.expert);
}

}  // namespace strata::comm
