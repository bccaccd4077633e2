#include "autograd/tape.h"

#include <set>

#include "kernels/jobs.h"

namespace strata {
namespace {

// Recorded after the last reader of a dropped value: the first thing backward does there is to bring it back.
struct RefillNode final : Node {
  Node* producer;
  std::vector<std::shared_ptr<device::Storage>> dropped;

  std::string_view name() const override { return "refill"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    const device::PhaseScope phase(tape.stream(), device::Phase::Recompute);
    for (const auto& storage : dropped) storage->refill();
    producer->refill(tape);
  }
};

struct CallNode final : Node {
  std::function<void()> f;

  std::string_view name() const override { return "call"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape&) override { f(); }
};

}  // namespace

bool RecomputePolicy::covers(Recompute what) const {
  switch (what) {
    case Recompute::Norm:
      return norm;
    case Recompute::Activation:
      return activation;
    case Recompute::Attention:
      return attention;
    case Recompute::DepthRetrieval:
      return depth_retrieval;
  }
  return false;
}

Var Tape::add_slot(Tensor value, DType dtype, GradSink sink) {
  slots_.push_back({value.dims(), dtype, {}, std::move(sink), nullptr});
  return {std::move(value), int(slots_.size()) - 1};
}

Var Tape::leaf(Tensor value) { return leaf(std::move(value), nullptr); }

Var Tape::leaf(Tensor value, GradSink sink) {
  const DType dtype = value.dtype();
  return add_slot(std::move(value), dtype, std::move(sink));
}

Var Tape::output(Tensor value, std::optional<DType> grad_dtype) {
  const DType dtype = grad_dtype.value_or(value.dtype());
  return add_slot(std::move(value), dtype, nullptr);
}

void Tape::push(std::unique_ptr<Node> node, const std::vector<Var>& outputs) {
  Entry entry{std::move(node), {}};
  for (const Var& y : outputs) {
    entry.outputs.push_back(y.slot);
    slot(y).producer = entry.node.get();
  }
  entries_.push_back(std::move(entry));
}

void Tape::release(const std::vector<Var>& outputs, Recompute what) {
  if (!recording() || !options_.recompute.covers(what) || outputs.empty()) return;
  auto marker = std::make_unique<RefillNode>();
  marker->producer = slot(outputs.front()).producer;
  STRATA_CHECK(marker->producer, "release of a value that no op of this tape made");
  for (const Var& y : outputs) {
    STRATA_CHECK(slot(y).producer == marker->producer, "released values come from different ops");
    marker->dropped.push_back(y.value.storage());
    y.value.storage()->drop();
  }
  entries_.push_back({std::move(marker), {}, true});
}

void Tape::on_the_way_back(std::function<void()> f) {
  if (!recording()) return;
  auto node = std::make_unique<CallNode>();
  node->f = std::move(f);
  entries_.push_back({std::move(node), {}, true});
}

void Tape::seed(const Var& y, double value) {
  const Grad g = grad_into(y);
  STRATA_CHECK(g && g.mode == Write::Overwrite, "seeding a value that has a gradient already");
  stream().run(kernels::Fill{.y = g.view, .value = value});
}

Tensor Tape::grad(const Var& v) const { return v.slot < 0 ? Tensor() : slots_.at(v.slot).grad; }

Grad Tape::grad_into(const Var& v) {
  if (v.slot < 0 || !recording()) return {};
  Slot& s = slot(v);
  if (s.sink) return s.sink();
  const Write mode = s.grad.defined() ? Write::Accumulate : Write::Overwrite;
  if (!s.grad.defined()) s.grad = empty(s.dims, s.dtype);
  return {s.grad, mode};
}

void Tape::pass_grad(const Var& y, const Var& x) {
  Slot& from = slot(y);
  if (x.slot < 0 || !from.grad.defined()) return;
  Slot& to = slot(x);
  if (!to.sink && !to.grad.defined() && to.dtype == from.dtype) {
    to.grad = std::move(from.grad).reshape(to.dims);
    from.grad = {};
    return;
  }
  if (const Grad dx = grad_into(x))
    stream().run(kernels::Copy{.x = from.grad.reshape(dx.view.dims), .y = dx.view, .mode = dx.mode});
}

void Tape::adopt_grad(const Var& y, Tensor grad) {
  Slot& s = slot(y);
  STRATA_CHECK(!s.grad.defined() && !s.sink, "adopting a gradient where one arrived already");
  s.grad = std::move(grad);
}

void Tape::backward(Weights when) {
  STRATA_CHECK(recording(), "backward on a tape that does not record");
  weights_ = when;
  const device::PhaseScope phase(stream(), device::Phase::Backward);
  while (!entries_.empty()) {
    const Entry entry = std::move(entries_.back());
    entries_.pop_back();
    bool arrived = entry.always;
    for (const int s : entry.outputs) arrived |= slots_[s].grad.defined();
    if (arrived) entry.node->backward(*this);
    for (const int s : entry.outputs) slots_[s].grad = {};
  }
}

void Tape::weight_work(std::unique_ptr<WeightWork> work) {
  if (weights_ == Weights::Now) return work->run(device_);
  later_.push_back(std::move(work));
}

void Tape::backward_weights() {
  const device::PhaseScope phase(stream(), device::Phase::Backward);
  for (auto& work : later_) {
    work->run(device_);
    work.reset();
  }
  later_.clear();
}

std::map<std::string, std::int64_t> Tape::report() const {
  std::map<std::string, std::int64_t> bytes;
  std::set<const device::Storage*> seen;
  for (const Entry& entry : entries_)
    for (const Tensor& t : entry.node->saved())
      if (t.defined() && !t.storage()->dropped() && seen.insert(t.storage().get()).second)
        bytes[std::string(entry.node->name())] += t.bytes();
  return bytes;
}

}  // namespace strata
