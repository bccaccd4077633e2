// How a sub-layer's input is read from what came before it, and how its output is written back. The state
// between two sub-layers is exactly what crosses a pipeline cut there.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "autograd/parameter.h"
#include "autograd/tape.h"
#include "nn/history.h"
#include "residual/config.h"

namespace strata::residual {

// A sub-layer of the trunk, numbered 1..L as in the papers: attention of layer i is 2i+1, its feed-forward
// part 2i+2. Number L+1 is the head.
struct Slot {
  int number = 1;
  bool operator==(const Slot&) const = default;
  int layer() const { return (number - 1) / 2; }
  bool is_attention() const { return number % 2 == 1; }
};

// "model.layers.{i}.attn_res" or "model.layers.{i}.mlp_res": where a sub-layer's residual parameters are
// named.
std::string parameter_prefix(Slot slot);

// Slots [first, last] that one tape runs.
struct SlotRange {
  Slot first, last;
};

// A named part of the state. Sealed: it will never change again.
struct Item {
  std::string name;
  bool sealed = false;
  Var var;
};

// Phase 1 of the depth retrieval for one target: made when its block opens, never on the wire.
struct Prepared {
  Slot target;
  Var out, lse;
  Tensor logits;  // only where an observer wants the weights
};

struct State {
  std::vector<Item> items;
  std::vector<Prepared> prepared;
  SlotRange range;      // what this tape runs
  Sequences sequences;  // how the tokens of this micro-batch form sequences
  // Rows of earlier tokens, for convolutions; null but in incremental decoding.
  nn::History* history = nullptr;

  Item* find(const std::string& name);
  Var& operator[](const std::string& name);
  // Every variable, in a fixed order: what a recompute wrapper takes in and gives back.
  std::vector<Var*> vars();
};

struct Reading {
  Slot slot;
  Var x;                        // [T,D], already normalised: what the sub-layer works on
  std::vector<Var> carry;       // what read computed for write (mixing coefficients); never crosses a cut
  std::vector<Var> releasable;  // x and what else selective recompute may drop once the sub-layer has read it
};

// What crosses a cut: names, shapes behind the token dimension, sealed flags. Static.
struct ItemSpec {
  std::string name;
  bool sealed = false;
  std::vector<std::int64_t> shape;  // [D] or [n,D]
  bool full_gradient = false;       // its gradient has many writers and is in Acc; else in the value's type
  bool operator==(const ItemSpec&) const = default;
};
using Boundary = std::vector<ItemSpec>;

// The norm of the sub-layer that reads: applied after whatever the residual module hands over.
struct Norm {
  Parameter* weight = nullptr;
  double eps = 0;
};

class Residual {
 public:
  virtual ~Residual() = default;

  // h_1 -> the state before slot 1. Names of the items are part of the boundary.
  virtual State open(Tape& tape, const Var& embedding) = 0;
  // Called once per tape with the range of slots it runs, and before each layer: prepares what a read will
  // need (the first phase of a block that opens here), outside of any recompute wrapper.
  virtual void prepare(Tape& tape, State& state, Slot next) { (void)tape, (void)state, (void)next; }
  virtual Reading read(Tape& tape, State& state, Slot slot, const Norm& norm) = 0;
  virtual void write(Tape& tape, State& state, const Reading& reading, const Var& update) = 0;
  // The state after the last slot -> what the head's norm reads, [T,D].
  virtual Var close(Tape& tape, State& state) = 0;
  // The items of the state right before slot `next`, 1 <= next <= L+1 (1: what open() made; L+1: everything
  // written, before close). The same on every stage.
  virtual Boundary boundary(Slot next) const = 0;
};

// What a module needs to know of the model around it.
struct Shape {
  std::int64_t hidden_size = 0;
  int sublayers = 0;  // L
  double initializer_range = 0.006;
  SlotRange slots;  // the sub-layers that will read here, L+1 the head: only their parameters are needed

  bool reads(int slot) const { return slots.first.number <= slot && slot <= slots.last.number; }
};

// The only place that maps the configuration's word to a class. Adds its parameters to the store.
std::unique_ptr<Residual> make(const Config& config, const Shape& shape, ParameterStore& store);

}  // namespace strata::residual
