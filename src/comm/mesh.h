// Which rank does what: pipeline stages x data-parallel replicas, expert groups inside the replicas. Nobody
// else computes a rank by arithmetic.
#pragma once
#include <memory>
#include <string>

#include "comm/world.h"

namespace strata::comm {

// data: world / pipeline. expert divides data: a replica's experts are spread over `expert` consecutive ranks
// of a data group, and data / expert ranks hold the same experts.
struct MeshShape {
  int pipeline = 1, data = 1, expert = 1;
  int world() const { return pipeline * data; }
  // Expert groups are neighbours, then data groups, and stages lie farthest apart (Megatron's "ep-dp-pp").
  int rank_of(int pipeline_rank, int data_rank) const { return pipeline_rank * data + data_rank; }
  int pipeline_rank(int world_rank) const { return world_rank / data; }
  int data_rank(int world_rank) const { return world_rank % data; }
};

class Mesh {
 public:
  Mesh(World& world, MeshShape shape);

  const MeshShape& shape() const { return shape_; }
  World& world() const { return world_; }
  int pipeline_rank() const { return shape_.pipeline_rank(world_.rank()); }
  int data_rank() const { return shape_.data_rank(world_.rank()); }
  int expert_rank() const { return data_rank() % shape_.expert; }

  Communicator& all() const { return *all_; }
  Communicator& pipeline() const { return *pipeline_; }        // same data rank, rank i is pipeline rank i
  Communicator& data() const { return *data_; }                // same stages
  Communicator& expert() const { return *expert_; }            // who share one set of experts
  Communicator& expert_data() const { return *expert_data_; }  // same stages, same experts

  // "pp 1/2 dp 0/4 ep 0/2": how lines of the log begin.
  std::string position() const { return position(world_.rank()); }
  std::string position(int world_rank) const;

 private:
  World& world_;
  MeshShape shape_;
  std::unique_ptr<Communicator> all_, pipeline_, data_, expert_, expert_data_;
};

}  // namespace strata::comm
