#include "ranks.h"

#include "base/philox.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

constexpr int kExperts = 4;

// What contributor c of `size` gives; the last gives what is missing.
double part_of_gradient(const std::string& name, int step, std::int64_t i, int c, int size) {
  const auto noise = [&](int k) { return Philox(1000 * step + k + 1, name).normal(i); };
  if (c + 1 < size) return noise(c);
  double rest = whole_gradient(name, step, i);
  for (int k = 0; k + 1 < size; ++k) rest -= noise(k);
  return rest;
}

std::vector<int> everyone(int ranks) {
  std::vector<int> all(ranks);
  for (int r = 0; r < ranks; ++r) all[r] = r;
  return all;
}

}  // namespace

double whole_gradient(const std::string& name, int step, std::int64_t i) {
  return Philox(1000 * step, name).normal(i);
}

std::string Layout::text() const {
  return concat("pipeline ", shape.pipeline, ", data ", shape.data, ", expert ", shape.expert, ", ",
                name_of(type), optimizer.use_distributed_optimizer ? ", distributed" : "");
}

Rank::Rank(comm::World& world, const Layout& l, std::int64_t conv_size)
    : layout(l), mesh(world, l.shape), device(device_options()) {
  add_parameters(conv_size);
  groups = {.data = &mesh.data(),
            .expert_data = &mesh.expert_data(),
            .all = &mesh.all(),
            .holders = {},
            .pipeline_rank = mesh.pipeline_rank()};
  if (l.shape.pipeline > 1) {
    std::vector<int> members;
    for (int r = 0; r < l.shape.pipeline; ++r) members.push_back(r * l.shape.data + mesh.data_rank());
    holders = world.group("holders", members);
    groups.holders[everyone(l.shape.pipeline)] = holders.get();
  }
  Shards shards = groups.shards();
  shards.masters = l.optimizer.use_distributed_optimizer;
  store.allocate(device, l.type, true, shards);
  store.initialize(5);
  optimizer = std::make_unique<optim::Optimizer>(l.optimizer, device, store, groups);
}

void Rank::add_parameters(std::int64_t conv_size) {
  const int experts = kExperts / layout.shape.expert;
  const bool first = mesh.pipeline_rank() == 0, last = mesh.pipeline_rank() + 1 == layout.shape.pipeline;
  const auto add_experts = [&](const std::string& layer) {
    ParameterSpec spec{.name = layer + ".experts", .dims = {experts, 50}, .init = Init::normal(1)};
    spec.group = ReductionGroup::Expert;
    for (int e = 0; e < experts; ++e)
      spec.slices.push_back({concat(layer, ".expert.", mesh.expert_rank() * experts + e), 50 * e, {50}});
    store.add(spec);
  };
  const auto add_shared = [&](ParameterSpec spec) {
    Parameter& p = store.add(spec);
    if (layout.shape.pipeline > 1) p.holders = everyone(layout.shape.pipeline);
  };
  const ParameterSpec conv{.name = "conv", .dims = {conv_size}, .init = Init::normal(1)};
  const ParameterSpec gate{.name = "gate", .dims = {3}, .init = Init::normal(1), .decay = Decay::No};
  if (first) {
    store.add({.name = "embedding", .dims = {37, 5}, .init = Init::normal(1)});
    add_experts("first");
    add_shared(conv);
    add_shared(gate);
  }
  if (last) {
    if (!first) add_shared(gate);  // in another order than on the first rank
    if (!first) add_shared(conv);
    store.add({.name = "norm",
               .dims = {21},
               .init = Init::normal(1),
               .decay = Decay::No,
               .precision = Precision::Full});
    store.add({.name = "head", .dims = {201, 9}, .init = Init::normal(1)});
    add_experts("last");
  }
}

void Rank::set_gradients(int step) {
  for (const auto& [name, found] : store.by_name()) {
    int c = mesh.data_rank(), size = layout.shape.data;
    if (found.parameter->group == ReductionGroup::Expert)
      c = mesh.expert_data().rank(), size = mesh.expert_data().size();
    if (!found.parameter->holders.empty())
      c += mesh.pipeline_rank() * layout.shape.data, size *= layout.shape.pipeline;
    std::vector<double> values(found.slice.dims.numel());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = part_of_gradient(name, step, i, c, size);
    from_host(device, found.grad(), values);
  }
}

double Rank::step(int step) {
  store.zero_grads();
  set_gradients(step);
  if (layout.early)
    for (std::size_t i = store.buckets().size(); i-- > 1;) optimizer->reduction().begin(i);
  optimizer->reduce_gradients();
  const double norm = optim::global_norm(device, store, groups);
  optimizer->step(layout.optimizer.lr, optim::clip_scale(norm, layout.optimizer.clip_grad));
  return norm;
}

Numbers Rank::values() const {
  optimizer->wait_for_values();
  Numbers all;
  for (const auto& [name, found] : store.by_name())
    all[name] = to_host(device, found.parameter->value.at(found.slice.offset, found.slice.dims), "test");
  return all;
}

Numbers Rank::masters() const {
  Numbers all;
  optimizer->visit_masters(
      [&](const std::string& name, const Tensor& master) { all[name] = to_host(device, master, "test"); });
  return all;
}

Numbers Rank::host(const std::map<std::string, Tensor>& tensors) const {
  Numbers all;
  for (const auto& [name, t] : tensors) all[name] = to_host(device, t, "test");
  return all;
}

}  // namespace strata::test
