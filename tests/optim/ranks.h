// One rank of a layout with a few parameters of every kind, and gradients whose sums are the same in all
// layouts.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "optim/optimizer.h"

namespace strata::test {

// Pipeline ranks 1 or 2.
struct Layout {
  comm::MeshShape shape = {};
  DType type = DType::Float64;
  optim::OptimizerSection optimizer = {.lr = 0.01, .weight_decay = 0.1, .clip_grad = 2};
  bool early = false;  // begins with some sums before the end
  std::string text() const;
};

using Numbers = std::map<std::string, std::vector<double>>;

class Rank {
 public:
  Rank(comm::World& world, const Layout& layout, std::int64_t conv_size = 29);

  // One step with the gradients of `step`; returns the norm.
  double step(int step);
  Numbers values() const;
  Numbers masters() const;  // every rank calls it
  Numbers host(const std::map<std::string, Tensor>& tensors) const;

  Layout layout;
  comm::Mesh mesh;
  mutable device::Device device;
  ParameterStore store;
  std::unique_ptr<comm::Communicator> holders;
  optim::ReductionGroups groups;
  std::unique_ptr<optim::Optimizer> optimizer;

 private:
  void add_parameters(std::int64_t conv_size);
  void set_gradients(int step);
};

// Element i of the whole gradient of `name`.
double whole_gradient(const std::string& name, int step, std::int64_t i);

}  // namespace strata::test
