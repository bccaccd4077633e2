// What the tape holds: one node per op call, owned by the tape, with named fields for what the forward keeps
// alive.
#pragma once
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace strata {

class Tape;

class Node {
 public:
  virtual ~Node() = default;
  virtual std::string_view name() const = 0;
  // Reads the gradients of the outputs (an absent one is zero), writes those of the inputs. Weight gradients
  // that need a product of their own are handed to Tape::weight_work; small ones that fall out here are
  // written here.
  virtual void backward(Tape& tape) = 0;
  // The tensors kept for backward, for the report.
  virtual std::vector<Tensor> saved() const = 0;
  // Computes the dropped outputs again from what is kept (only nodes whose outputs are released by a module).
  virtual void refill(Tape&) { throw Error(concat(name(), " cannot compute its outputs again")); }
};

// A weight gradient {input, output gradient, parameter}: may run any time later, exactly once.
class WeightWork {
 public:
  virtual ~WeightWork() = default;
  virtual void run(device::Device& device) = 0;
};

}  // namespace strata
