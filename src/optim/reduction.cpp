#include "optim/reduction.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kernels/jobs.h"

namespace strata::optim {
namespace {

int size_of_group(const comm::Communicator* group) { return group ? group->size() : 1; }

std::string layout(const Bucket& b) {
  std::string text = concat(b.value.numel(), " elements:");
  for (const Parameter* p : b.parameters)
    text += concat(" ", p->name, " ", p->dims.text(), " at ", p->bucket_offset);
  return text + "\n";
}

}  // namespace

comm::Communicator* ReductionGroups::of(ReductionGroup kind) const {
  comm::Communicator* group = kind == ReductionGroup::Dense ? data : expert_data;
  return size_of_group(group) > 1 ? group : nullptr;
}

bool ReductionGroups::speaks_for(const Parameter& p) const {
  const comm::Communicator* group = of(p.group);
  return (!group || group->rank() == 0) && (p.holders.empty() || p.holders.front() == pipeline_rank);
}

int ReductionGroups::size(const Bucket& bucket) const { return size_of_group(of(bucket)); }

int ReductionGroups::rank(const Bucket& bucket) const {
  const comm::Communicator* group = of(bucket);
  return group ? group->rank() : 0;
}

Shards ReductionGroups::shards() const {
  const auto group = [](const comm::Communicator* c) -> Shards::Group {
    return c ? Shards::Group{c->size(), c->rank()} : Shards::Group{};
  };
  return {.dense = group(data), .expert = group(expert_data)};
}

Part ReductionGroups::held(const Bucket& bucket, bool distributed) const {
  const std::int64_t n = bucket.value.numel();
  if (!distributed || !of(bucket)) return {0, n};
  STRATA_CHECK(n % size(bucket) == 0, "a bucket of ", n, " elements over ", size(bucket), " ranks");
  return part_of(n, rank(bucket), size(bucket));
}

Part ReductionGroups::owned(const Bucket& bucket) const {
  if (!bucket.holders.empty() && bucket.holders.front() != pipeline_rank) return {};
  return part_of(bucket.value.numel(), rank(bucket), size(bucket));
}

std::string label(const Bucket& bucket) {
  const std::size_t others = bucket.parameters.size() - 1;
  return bucket.parameters.front()->name + (others ? concat(" and ", others, " more") : "");
}

GradientReduction::GradientReduction(device::Device& device, ParameterStore& store,
                                     const ReductionGroups& groups, bool distributed)
    : device_(device),
      store_(store),
      groups_(groups),
      distributed_(distributed),
      begun_(store.buckets().size()),
      pending_(store.buckets().size()) {
  const std::vector<Bucket>& buckets = store.buckets();
  for (std::size_t i = 0; i < buckets.size(); ++i)
    if (buckets[i].holders.size() > 1) shared_.push_back(i);
  std::sort(shared_.begin(), shared_.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](const Bucket& x) { return std::tie(x.holders, x.group, x.precision, x.decay); };
    return key(buckets[a]) < key(buckets[b]);
  });
  check_holders();
}

void GradientReduction::check_holders() const {
  std::map<std::vector<int>, std::string> layouts;
  for (const auto& [holders, group] : groups_.holders) layouts[holders];
  for (const std::size_t i : shared_) {
    const Bucket& b = store_.buckets()[i];
    STRATA_CHECK(groups_.holders.count(b.holders), "no communicator between the holders of ", label(b));
    layouts[b.holders] += layout(b);
  }
  for (const auto& [holders, mine] : layouts) {
    comm::Communicator& group = *groups_.holders.at(holders);
    const std::vector<std::string> all = comm::gather_texts(group, mine);
    for (int r = 0; r < group.size(); ++r)
      STRATA_CHECK(all[r] == mine, group.name(), ": its rank ", r, " has\n", all[r], "its rank ",
                   group.rank(), " has\n", mine);
  }
}

void GradientReduction::begin(std::size_t i) {
  const Bucket& b = store_.buckets()[i];
  STRATA_CHECK(!begun_[i], "the gradient of ", label(b), " is summed twice");
  begun_[i] = true;
  comm::Communicator* group = groups_.of(b);
  if (!group) return;
  const Part part = groups_.held(b, distributed_);
  const std::string what = kGradientOf + label(b);
  pending_[i] = distributed_ ? group->reduce_scatter(device_.compute(), b.grad,
                                                     b.grad.slice(part.begin, part.end), what)
                             : group->all_reduce(device_.compute(), b.grad, what);
}

void GradientReduction::finish() {
  device::Stream& stream = device_.compute();
  for (std::size_t i = 0; i < begun_.size(); ++i)
    if (!begun_[i]) begin(i);
  for (const std::size_t i : shared_) {
    const Bucket& b = store_.buckets()[i];
    const Part part = groups_.held(b, distributed_);
    if (pending_[i]) pending_[i].wait(stream);
    pending_[i] = groups_.holders.at(b.holders)->all_reduce(
        stream, b.grad.slice(part.begin, part.end), concat(kGradientOf, label(b), " over its holders"));
  }
  for (comm::Pending& p : pending_) {
    if (p) p.wait(stream);
    p = {};
  }
  begun_.assign(begun_.size(), false);
}

double global_norm(device::Device& device, ParameterStore& store, const ReductionGroups& groups) {
  const device::PhaseScope phase(device.compute(), device::Phase::Optimizer);
  Tensor squares(device, {1}, DType::Float64, device::Purpose::Gradients);
  Write mode = Write::Overwrite;
  for (const Bucket& b : store.buckets()) {
    const Part part = groups.owned(b);
    device.compute().run(
        kernels::SumSquares{.x = b.grad.slice(part.begin, part.end), .y = squares, .mode = mode});
    mode = Write::Accumulate;
  }
  if (size_of_group(groups.all) > 1)
    groups.all->all_reduce(device.compute(), squares, "gradient norm").wait(device.compute());
  return std::sqrt(to_host(device, squares, "gradient norm").at(0));
}

}  // namespace strata::optim
