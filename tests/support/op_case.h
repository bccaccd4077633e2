// One struct per op buys all its tests: forward against the naive float64 reference, gradients against finite
// differences of that reference, overwrite and accumulate, weight gradients now and later, several thread
// counts with equal bits, release and refill, float64, float32 and bfloat16.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "autograd/parameter.h"
#include "autograd/tape.h"
#include "reference/array.h"

namespace strata::test {

using Arrays = std::map<std::string, reference::Array>;

struct OpInput {
  enum Kind { Activation, Weight, FullWeight, FullActivation };  // Full: kept in Acc also in bfloat16
  std::string name;
  std::vector<std::int64_t> shape;  // at most 4
  Kind kind = Activation;
  double scale = 1, shift = 0;  // values are shift + scale * normal
};

// Inputs as the op takes them.
class OpArgs {
 public:
  const Var& var(const std::string& name) const { return vars_.at(name); }
  Parameter& weight(const std::string& name) const { return *weights_.at(name); }

 private:
  friend class OpRun;
  std::map<std::string, Var> vars_;
  std::map<std::string, Parameter*> weights_;
};

class OpCase {
 public:
  virtual ~OpCase() = default;
  virtual std::vector<OpInput> inputs() const = 0;
  // Differentiable outputs, in the order of the reference's.
  virtual std::vector<Var> run(Tape& tape, const OpArgs& args) const = 0;
  virtual std::vector<reference::Array> reference(const Arrays& inputs) const = 0;

  // Set where an op differs from the common rule.
  double float64_tolerance = 1e-11, float32_tolerance = 2e-5, bfloat16_tolerance = 3e-2;
  double difference_tolerance = 2e-6;  // of finite differences, relative to the gradient's norm
  double difference_step = 1e-5;
  bool bfloat16 = true;               // false: the op takes Acc types only
  std::optional<Recompute> releases;  // the outputs can be released under this policy
  bool computed_in_backward = false;  // the outputs of a tape that records are valid only after it
  std::uint64_t seed = 1;
};

// Runs every check; failures are GoogleTest failures that name the check and the tensor.
void check_op(const OpCase& op);

// shift + scale * normal numbers, of the stream `name` of `seed`, rounded to `type`.
reference::Array normal(const std::vector<std::int64_t>& shape, DType type, std::uint64_t seed,
                        const std::string& name, double scale = 1, double shift = 0);

// Uploads a host array / int ids as a tensor (for non-differentiable arguments: labels, documents, indices).
Tensor upload(device::Device& device, const reference::Array& values, DType dtype);
Tensor upload_int(device::Device& device, const std::vector<std::int64_t>& values, Dims dims,
                  DType dtype = DType::Int32);

// Relative difference ||a - b|| / max(||b||, tiny).
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace strata::test
