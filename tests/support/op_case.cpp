#include "support/op_case.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <random>

#include "base/philox.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using reference::Array;
using Values = std::map<std::string, std::vector<double>>;

Dims dims_of(const std::vector<std::int64_t>& shape) {
  Dims d;
  for (const std::int64_t e : shape) d.extent[d.rank++] = e;
  return d;
}

DType type_of(const OpInput& in, DType compute) {
  return in.kind == OpInput::Activation || in.kind == OpInput::Weight ? compute : acc_of(compute);
}
bool is_weight(const OpInput& in) { return in.kind == OpInput::Weight || in.kind == OpInput::FullWeight; }

constexpr double kPrefill = 0.25;  // what accumulated gradients start from; exact in every type

}  // namespace

Array normal(const std::vector<std::int64_t>& shape, DType type, std::uint64_t seed, const std::string& name,
             double scale, double shift) {
  Array a(shape);
  const Philox random(seed, name);
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const double v = shift + scale * random.normal(i);
    a.data[i] = type == DType::Float64   ? v
                : type == DType::Float32 ? double(float(v))
                                         : double(float(bfloat16(float(v))));
  }
  return a;
}

struct RunOptions {
  DType compute = DType::Float64;
  Weights when = Weights::Now;
  bool accumulate = false;  // gradients land on top of kPrefill
  bool release = false;
  int threads = 1;
};

struct RunResult {
  std::vector<std::vector<double>> outputs;
  Values grads;
};

// A later reader of an op's output: what it finds in backward goes to `seen`.
struct ReaderNode final : Node {
  Var x, y;
  std::vector<double>* seen;

  std::string_view name() const override { return "reader"; }
  std::vector<Tensor> saved() const override { return {x.value}; }
  void backward(Tape& tape) override {
    *seen = to_host(tape.device(), x.value, "test");
    tape.pass_grad(y, x);
  }
};

Var read_in_backward(Tape& tape, const Var& x, std::vector<double>& seen) {
  auto node = std::make_unique<ReaderNode>();
  node->x = x;
  node->y = tape.output(x.value, tape.grad_dtype(x));
  node->seen = &seen;
  const Var y = node->y;
  tape.record(std::move(node), {y});
  return y;
}

// One execution of an op: inputs uploaded, cotangents handed in, everything read back.
class OpRun {
 public:
  OpRun(const OpCase& op, const Arrays& inputs, const std::vector<Array>& cotangents, const RunOptions& o)
      : device_(device_options()), op_(op), options_(o) {
    omp_set_num_threads(o.threads);
    for (const OpInput& in : op.inputs()) is_weight(in) ? declare(in) : void();
    store_.allocate(device_, o.compute);
    Tape::Options tape_options;
    if (o.release) tape_options.recompute = {true, true, true, true};
    Tape tape(device_, tape_options);
    for (const OpInput& in : op.inputs()) is_weight(in) ? fill(in, inputs) : add_leaf(tape, in, inputs);
    const std::vector<Var> outputs = op.run(tape, args_);
    if (!op.computed_in_backward) result.outputs = read(outputs);
    std::vector<Var> ends = outputs;
    std::vector<std::vector<double>> refilled(outputs.size());
    if (o.release) {
      for (std::size_t i = 0; i < outputs.size(); ++i)
        ends[i] = read_in_backward(tape, outputs[i], refilled[i]);
      tape.release(outputs, *op.releases);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Tensor dy(device_, outputs[i].value.dims(), tape.grad_dtype(ends[i]));
      from_host(device_, dy, cotangents.at(i).data);
      tape.adopt_grad(ends[i], dy);
    }
    tape.backward(o.when);
    tape.backward_weights();
    if (op.computed_in_backward) read_late(outputs);
    collect(tape);
    if (o.release) {
      EXPECT_TRUE(refilled == result.outputs) << "released outputs come back with other bits";
    }
    omp_set_num_threads(2);
  }

  RunResult result;

 private:
  std::vector<std::vector<double>> read(const std::vector<Var>& outputs) {
    std::vector<std::vector<double>> values;
    for (const Var& y : outputs) values.push_back(to_host(device_, y.value, "test"));
    return values;
  }
  void read_late(const std::vector<Var>& outputs) {
    result.outputs = read(outputs);
    Tape plain(device_, {.recording = false, .recompute = {}, .observer = nullptr});
    EXPECT_TRUE(read(op_.run(plain, args_)) == result.outputs) << "backward computes outputs of other bits";
  }
  void declare(const OpInput& in) {
    args_.weights_[in.name] =
        &store_.add({.name = in.name,
                     .dims = dims_of(in.shape),
                     .init = {},
                     .precision = in.kind == OpInput::Weight ? Precision::Compute : Precision::Full});
  }
  void fill(const OpInput& in, const Arrays& inputs) {
    store_.set(in.name, inputs.at(in.name).data);
    Parameter& p = args_.weight(in.name);
    if (options_.accumulate) from_host(device_, p.grad, std::vector<double>(p.grad.numel(), kPrefill));
  }
  void add_leaf(Tape& tape, const OpInput& in, const Arrays& inputs) {
    Tensor value = upload(device_, inputs.at(in.name), type_of(in, options_.compute));
    if (!options_.accumulate) {
      args_.vars_[in.name] = tape.leaf(value);
      return;
    }
    Tensor grad(device_, value.dims(), value.dtype());
    from_host(device_, grad, std::vector<double>(grad.numel(), kPrefill));
    sinks_[in.name] = grad;
    args_.vars_[in.name] = tape.leaf(value, [grad] { return Grad{grad, Write::Accumulate}; });
  }
  void collect(Tape& tape) {
    for (const OpInput& in : op_.inputs()) {
      Tensor g = is_weight(in)         ? args_.weight(in.name).grad
                 : options_.accumulate ? sinks_.at(in.name)
                                       : tape.grad(args_.var(in.name));
      result.grads[in.name] =
          g.defined() ? to_host(device_, g, "test") : std::vector<double>(dims_of(in.shape).numel(), 0.0);
    }
  }

  device::Device device_;
  const OpCase& op_;
  RunOptions options_;
  ParameterStore store_;
  OpArgs args_;
  std::map<std::string, Tensor> sinks_;
};

namespace {

RunResult execute(const OpCase& op, const Arrays& inputs, const std::vector<Array>& cotangents,
                  const RunOptions& options = {}) {
  return OpRun(op, inputs, cotangents, options).result;
}

Arrays make_inputs(const OpCase& op, DType compute) {
  Arrays arrays;
  for (const OpInput& in : op.inputs())
    arrays[in.name] = normal(in.shape, type_of(in, compute), op.seed, in.name, in.scale, in.shift);
  return arrays;
}

std::vector<Array> make_cotangents(const OpCase& op, const std::vector<Array>& outputs) {
  std::vector<Array> cotangents;
  for (std::size_t i = 0; i < outputs.size(); ++i)  // bfloat16: exact in every type
    cotangents.push_back(normal(outputs[i].shape, DType::BFloat16, op.seed, "cotangent" + std::to_string(i)));
  return cotangents;
}

double inner(const std::vector<Array>& cotangents, const std::vector<Array>& outputs) {
  double sum = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o)
    for (std::size_t i = 0; i < outputs[o].data.size(); ++i)
      sum += cotangents[o].data[i] * outputs[o].data[i];
  return sum;
}

// Elements of the reference's gradient, by central differences, against the op's.
void check_differences(const OpCase& op, const Arrays& inputs, const std::vector<Array>& cotangents,
                       const Values& grads) {
  for (const OpInput& in : op.inputs()) {
    std::mt19937_64 random(op.seed);
    const std::int64_t n = inputs.at(in.name).size();
    double error = 0, norm = 0;
    for (const double g : grads.at(in.name)) norm += g * g;
    norm = std::sqrt(norm / double(n));
    std::int64_t worst = -1;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(n, 48); ++k) {
      const std::int64_t i = n <= 48 ? k : std::int64_t(random() % n);
      Arrays shifted = inputs;
      const double h = op.difference_step * std::max(1.0, std::abs(inputs.at(in.name).data[i]));
      shifted[in.name].data[i] = inputs.at(in.name).data[i] + h;
      const double up = inner(cotangents, op.reference(shifted));
      shifted[in.name].data[i] = inputs.at(in.name).data[i] - h;
      const double down = inner(cotangents, op.reference(shifted));
      const double e = std::abs((up - down) / (2 * h) - grads.at(in.name)[i]);
      if (e > error) error = e, worst = i;
    }
    EXPECT_LE(error, op.difference_tolerance * std::max(norm, 1e-3))
        << "gradient of " << in.name << " against finite differences, element " << worst;
  }
}

void expect_close(const RunResult& got, const std::vector<Array>& outputs, const Values& grads,
                  double tolerance, const std::string& what) {
  for (std::size_t o = 0; o < outputs.size(); ++o)
    EXPECT_LE(relative_error(got.outputs.at(o), outputs[o].data), tolerance) << what << ": output " << o;
  double all = 0;
  for (const auto& [name, g] : grads)
    for (const double v : g) all += v * v;
  for (const auto& [name, g] : grads) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      difference += (got.grads.at(name)[i] - g[i]) * (got.grads.at(name)[i] - g[i]);
      norm += g[i] * g[i];
    }
    // A gradient that is rounding only is measured against all of them.
    EXPECT_LE(std::sqrt(difference), tolerance * std::max(std::sqrt(norm), 1e-3 * std::sqrt(all)) + 1e-300)
        << what << ": gradient of " << name;
  }
}

void expect_same_bits(const RunResult& a, const RunResult& b, const std::string& what) {
  EXPECT_TRUE(a.outputs == b.outputs) << what << ": outputs differ";
  for (const auto& [name, g] : a.grads)
    EXPECT_TRUE(g == b.grads.at(name)) << what << ": gradient of " << name;
}

}  // namespace

Tensor upload(device::Device& device, const Array& values, DType dtype) {
  Tensor t(device, dims_of(values.shape), dtype);
  from_host(device, t, values.data);
  return t;
}

Tensor upload_int(device::Device& device, const std::vector<std::int64_t>& values, Dims dims, DType dtype) {
  Tensor t(device, dims, dtype);
  from_host(device, t, values);
  return t;
}

double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (std::isnan(difference)) return INFINITY;
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

void check_op(const OpCase& op) {
  for (const DType compute : {DType::Float64, DType::Float32, DType::BFloat16}) {
    if (compute == DType::BFloat16 && !op.bfloat16) continue;
    const std::string type(name_of(compute));
    const Arrays inputs = make_inputs(op, compute);
    const std::vector<Array> outputs = op.reference(inputs);
    const std::vector<Array> cotangents = make_cotangents(op, outputs);
    const RunResult exact = execute(op, inputs, cotangents);
    const RunOptions plain{.compute = compute};
    const RunResult got = compute == DType::Float64 ? exact : execute(op, inputs, cotangents, plain);
    const double tolerance = compute == DType::Float64   ? op.float64_tolerance
                             : compute == DType::Float32 ? op.float32_tolerance
                                                         : op.bfloat16_tolerance;
    expect_close(got, outputs, exact.grads, tolerance, type);
    if (compute == DType::Float64) check_differences(op, inputs, cotangents, exact.grads);

    RunOptions varied = plain;
    for (const int threads : {2, 3}) {
      varied.threads = threads;
      expect_same_bits(got, execute(op, inputs, cotangents, varied),
                       type + ", " + std::to_string(threads) + " threads");
    }
    varied = plain;
    varied.when = Weights::Later;
    expect_same_bits(got, execute(op, inputs, cotangents, varied), type + ", weight gradients later");
    if (op.releases) {
      varied = plain;
      varied.release = true;
      expect_same_bits(got, execute(op, inputs, cotangents, varied), type + ", released and computed again");
    }
    varied = plain;
    varied.accumulate = true;
    Values summed = exact.grads;
    for (auto& [name, g] : summed)
      for (double& v : g) v += kPrefill;
    expect_close(execute(op, inputs, cotangents, varied), outputs, summed, tolerance, type + ", accumulated");
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace strata::test
