// A define-by-run tape of coarse ops with a two-phase backward: input gradients in reverse order of
// recording, weight gradients at once or later. Gradients are written in place: the first writer overwrites,
// nobody zero-fills.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/node.h"

namespace strata {

// A value and the slot its gradient arrives in. Slot -1: nobody wants a gradient.
struct Var {
  Tensor value;
  int slot = -1;
};

enum class Weights { Now, Later };

// What selective recompute may drop after its last forward reader.
enum class Recompute { Norm, Activation, Attention, DepthRetrieval };
struct RecomputePolicy {
  bool norm = false, activation = false, attention = false, depth_retrieval = false;
  bool covers(Recompute what) const;
};

// Sees named intermediate values of a forward pass: "logits", "token_loss", and by number of the sub-layer
// "output.3", "depth_weights.3", "gate.3".
class Observer {
 public:
  virtual ~Observer() = default;
  // Asked before a value is computed or copied for the observer alone.
  virtual bool wants(const std::string& name) const { return (void)name, true; }
  virtual void observe(const std::string& name, const Tensor& value) = 0;
};

// Where a leaf's gradient goes, asked anew at each write: an outer tape's slot, an item store, or nowhere
// (empty).
using GradSink = std::function<Grad()>;

class Tape {
 public:
  struct Options {
    bool recording = true;
    RecomputePolicy recompute;
    Observer* observer = nullptr;
    bool replay =
        false;  // the values were counted before: ops with a side effect (expert loads) leave it out
  };

  explicit Tape(device::Device& device) : Tape(device, Options()) {}
  Tape(device::Device& device, Options options) : device_(device), options_(options) {}
  Tape(const Tape&) = delete;

  device::Device& device() const { return device_; }
  device::Stream& stream() const { return device_.compute(); }
  bool recording() const { return options_.recording; }
  const Options& options() const { return options_; }
  // Null unless somebody watches: ops compute what only an observer wants behind this test, and wants().
  Observer* observer() const { return options_.observer; }

  // ---- forward
  Tensor empty(Dims dims, DType dtype) const { return Tensor(device_, dims, dtype); }
  Var constant(Tensor value) const { return {std::move(value), -1}; }
  Var leaf(Tensor value);                 // its gradient stays readable through grad() after backward
  Var leaf(Tensor value, GradSink sink);  // its gradient is written straight into the sink's target
  // An op's result. `grad_dtype`: the type its gradient is accumulated in, where that is not the value's own.
  Var output(Tensor value) { return output(std::move(value), std::nullopt); }
  Var output(Tensor value, std::optional<DType> grad_dtype);
  // Hands a node to the tape (ignored unless recording). It runs in backward if any output's gradient
  // arrived.
  template <class N>
  void record(std::unique_ptr<N> node, const std::vector<Var>& outputs) {
    if (recording()) push(std::move(node), outputs);
  }
  // The last forward reader of these outputs of one op is done: under a policy that covers `what`, their
  // memory goes, and the op computes them again before anything recorded earlier runs backward.
  void release(const std::vector<Var>& outputs, Recompute what);

  // Backward calls `f` when it has left everything that is recorded after this.
  void on_the_way_back(std::function<void()> f);

  // ---- backward
  void seed(const Var& y, double value);  // every element of y's gradient
  void backward(Weights when = Weights::Now);
  void backward_weights();
  Weights weights() const { return weights_; }
  // The gradient that arrived; an undefined tensor if none did.
  Tensor grad(const Var& v) const;
  // Where to write v's gradient; empty if nobody wants it. Ask right before writing: asking counts as
  // writing.
  Grad grad_into(const Var& v);
  // y is x under another name, or a sum whose gradient passes through: gives x y's finished gradient, without
  // a copy where x has none yet and the types agree.
  void pass_grad(const Var& y, const Var& x);
  void weight_work(std::unique_ptr<WeightWork> work);
  // For wrappers: a finished gradient taken over as y's own, the type gradients of v have, the work still to
  // run.
  void adopt_grad(const Var& y, Tensor grad);
  DType grad_dtype(const Var& v) const { return slots_.at(v.slot).dtype; }
  std::vector<std::unique_ptr<WeightWork>> take_weight_work() { return std::exchange(later_, {}); }

  std::map<std::string, std::int64_t> report()
      const;  // bytes kept for backward by op name, shared memory once

 private:
  struct Slot {
    Dims dims;
    DType dtype = DType::Float32;
    Tensor grad;
    GradSink sink;
    Node* producer = nullptr;
  };
  struct Entry {
    std::unique_ptr<Node> node;
    std::vector<int> outputs;
    bool always = false;  // markers run whatever arrived
  };
  Slot& slot(const Var& v) { return slots_.at(v.slot); }
  Var add_slot(Tensor value, DType dtype, GradSink sink);
  void push(std::unique_ptr<Node> node, const std::vector<Var>& outputs);

  device::Device& device_;
  Options options_;
  Weights weights_ = Weights::Now;
  std::vector<Slot> slots_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<WeightWork>> later_;
};

}  // namespace strata
