// The tape: where gradients land, in which order they add up, what is kept and what is computed again.
#include "autograd/tape.h"

#include <gtest/gtest.h>

#include "autograd/recompute.h"
#include "base/philox.h"
#include "kernels/jobs.h"
#include "ops/add.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using Values = std::vector<double>;

class Tapes : public ::testing::Test {
 protected:
  Tensor tensor(Dims dims, const Values& values, DType type = DType::Float64) {
    const Tensor t(device, dims, type);
    from_host(device, t, values);
    return t;
  }
  Tensor random(Dims dims, std::string_view name, DType type = DType::Float64) {
    Values v(dims.numel());
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = Philox(2, name).normal(i);
    return tensor(dims, v, type);
  }
  Values host(const Tensor& t) { return to_host(device, t, "test"); }

  device::Device device{device_options()};
};

TEST_F(Tapes, FirstWriterOverwritesAndTheNextAdds) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 2}, {1, 2}));
  EXPECT_EQ(tape.grad_into(x).mode, Write::Overwrite);
  EXPECT_EQ(tape.grad_into(x).mode, Write::Accumulate);
}

TEST_F(Tapes, LeafKeepsItsGradientOthersDoNot) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 2}, {1, 2}));
  const Var y = ops::add(tape, x, x);
  EXPECT_FALSE(tape.grad(x).defined());
  tape.seed(y, 3);
  tape.backward();
  EXPECT_EQ(host(tape.grad(x)), (Values{6, 6}));
  EXPECT_FALSE(tape.grad(y).defined());
}

TEST_F(Tapes, ConstantsWantNoGradient) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 1}, {1})), c = tape.constant(tensor({1, 1}, {5}));
  const Var y = ops::add(tape, c, ops::add(tape, x, c));
  EXPECT_FALSE(tape.grad_into(c));
  EXPECT_FALSE(tape.grad(c).defined());
  tape.seed(y, 1);
  tape.backward();
  EXPECT_EQ(host(tape.grad(x)), Values{1});
}

TEST_F(Tapes, SinkIsAskedAtEveryWrite) {
  Tape tape(device);
  const Tensor store = tensor({1, 1}, {10});
  int asked = 0;
  const Var x = tape.leaf(tensor({1, 1}, {1}), [&] {
    ++asked;
    return Grad{store, Write::Accumulate};
  });
  const Var y = ops::add(tape, x, x);
  tape.seed(y, 2);
  tape.backward();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(host(store), Values{14});
  EXPECT_FALSE(tape.grad(x).defined());
}

TEST_F(Tapes, EmptySinkDropsTheGradient) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 1}, {1}), [] { return Grad{}; }), z = tape.leaf(tensor({1, 1}, {1}));
  tape.seed(ops::add(tape, z, x), 2);
  tape.backward();
  EXPECT_EQ(host(tape.grad(z)), Values{2});
}

TEST_F(Tapes, PassedGradientIsMovedOnlyIntoAnEmptySlotOfTheSameType) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 1}, {1})), y = tape.output(x.value), z = tape.output(x.value);
  tape.seed(y, 2);
  tape.seed(z, 3);
  const auto memory = tape.grad(y).storage();
  tape.pass_grad(y, x);
  EXPECT_EQ(tape.grad(x).storage(), memory);
  EXPECT_FALSE(tape.grad(y).defined());
  tape.pass_grad(z, x);  // on top
  EXPECT_TRUE(tape.grad(z).defined());
  EXPECT_EQ(host(tape.grad(x)), Values{5});

  const Var narrow = tape.leaf(tensor({1, 1}, {1}, DType::BFloat16)),
            wide = tape.output(narrow.value, DType::Float32);
  tape.seed(wide, 1.5);
  tape.pass_grad(wide, narrow);
  EXPECT_EQ(tape.grad(narrow).dtype(), DType::BFloat16);
  EXPECT_EQ(host(tape.grad(narrow)), Values{1.5});
}

TEST_F(Tapes, NodesWhoseOutputsGotNoGradientDoNotRun) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 1}, {1})), z = tape.leaf(tensor({1, 1}, {1}));
  const Var unread = ops::add(tape, z, z), y = ops::add(tape, x, x);
  tape.seed(y, 1);
  tape.backward();
  EXPECT_FALSE(tape.grad(z).defined());
  EXPECT_FALSE(tape.grad(unread).defined());
  EXPECT_EQ(host(tape.grad(x)), Values{2});
}

TEST_F(Tapes, SeedingTwiceIsAnError) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 1}, {1}));
  tape.seed(x, 1);
  EXPECT_THROW(tape.seed(x, 1), Error);
  EXPECT_THROW(tape.adopt_grad(x, x.value), Error);
}

TEST_F(Tapes, WithoutRecordingNothingIsKept) {
  Tape tape(device, {.recording = false, .recompute = {}, .observer = nullptr});
  const Var x = tape.leaf(tensor({2, 4}, Values(8, 0.5)));
  const Var y = ops::swiglu(tape, x);
  EXPECT_TRUE(tape.report().empty());
  EXPECT_FALSE(tape.grad_into(x));
  EXPECT_THROW(tape.backward(), Error);
  EXPECT_EQ(y.value.dims(), (Dims{2, 2}));
}

// Two layers of x -> norm -> linear -> swiglu, with their weights.
class Network {
 public:
  explicit Network(device::Device& device) : device_(device) {
    for (const char* name : {"a", "b"})
      store_.add({.name = name, .dims = {8, name[0] == 'a' ? 6 : 4}, .init = Init::normal(0.5)});
    store_.add({.name = "gain", .dims = {6}, .init = Init::constant(1.25), .precision = Precision::Full});
    store_.allocate(device, DType::Float32);
    store_.initialize(9);
  }
  Parameter& weight(const std::string& name) { return *store_.by_name().at(name).parameter; }
  Var operator()(Tape& tape, const Var& x) {
    const Var normed = ops::rms_norm(tape, x, &weight("gain"), 1e-6);
    const Var first = ops::linear(tape, normed, weight("a"));
    tape.release({normed}, Recompute::Norm);
    const Var hidden = ops::swiglu(tape, first);
    const Var y = ops::linear(tape, hidden, weight("b"));
    tape.release({hidden}, Recompute::Activation);
    return y;
  }
  // Gradients of x and the weights of one pass, and a check that every one of them is there.
  std::vector<Values> grads(Tape& tape, const Var& x, const Var& y, Weights when) {
    tape.seed(y, 0.5);
    tape.backward(when);
    tape.backward_weights();
    std::vector<Values> all{to_host(device_, tape.grad(x), "test")};
    for (const char* name : {"a", "b", "gain"}) all.push_back(to_host(device_, weight(name).grad, "test"));
    for (const Values& g : all) EXPECT_NE(g, Values(g.size(), 0.0));
    return all;
  }
  void zero() { store_.zero_grads(); }

 private:
  device::Device& device_;
  ParameterStore store_;
};

TEST_F(Tapes, ReleasedValuesComeBackWithTheSameBits) {
  Network network(device);
  const Tensor input = random({5, 6}, "input", DType::Float32);
  Tape plain(device);
  const Var x = plain.leaf(input);
  const auto kept = network.grads(plain, x, network(plain, x), Weights::Now);
  network.zero();

  Tape::Options options;
  options.recompute = {.norm = true, .activation = true};
  Tape tape(device, options);
  const Var again = tape.leaf(input);
  const Var y = network(tape, again);
  const auto report = tape.report();
  EXPECT_EQ(report.at("rms_norm"), (5 * 6 + 5) * 4);
  EXPECT_EQ(report.at("swiglu"), 5 * 8 * 4);
  EXPECT_EQ(report.count("linear"), 0u) << "the inputs of both layers are gone";
  EXPECT_EQ(network.grads(tape, again, y, Weights::Now), kept);
}

TEST_F(Tapes, ReleasedMemoryIsReallyFree) {
  Network network(device);
  Tape::Options options;
  options.recompute = {.norm = true, .activation = false};
  Tape tape(device, options);
  const Var normed = ops::rms_norm(tape, tape.leaf(random({5, 6}, "input", DType::Float32)), nullptr, 1e-6);
  const auto before = device.memory().use(device::Purpose::Activations).now;
  tape.release({normed}, Recompute::Activation);
  EXPECT_EQ(device.memory().use(device::Purpose::Activations).now, before) << "not covered by the policy";
  tape.release({normed}, Recompute::Norm);
  EXPECT_EQ(device.memory().use(device::Purpose::Activations).now, before - 5 * 6 * 4);
  EXPECT_THROW(normed.value.view(), Error);
}

TEST_F(Tapes, RecomputeGivesTheSameBits) {
  Network network(device);
  const Tensor input = random({5, 6}, "input", DType::Float32);
  for (const Weights when : {Weights::Now, Weights::Later}) {
    std::vector<std::vector<Values>> results;
    for (const bool again : {false, true}) {
      network.zero();
      Tape tape(device);
      const Var x = tape.leaf(input);
      const Var one = ops::add(tape, x, x);  // the body's input has other readers before and after it
      const Body body = [&](Tape& inner, const std::vector<Var>& in) {
        return std::vector<Var>{network(inner, in[0])};
      };
      const Var y = again ? recompute(tape, {one}, body)[0] : body(tape, {one})[0];
      if (again) {
        EXPECT_EQ(tape.report(), (std::map<std::string, std::int64_t>{{"recompute", 5 * 6 * 4}}));
      }
      const Var read_again = ops::rms_norm(tape, one, nullptr, 1e-6);
      tape.seed(read_again, 0.25);
      results.push_back(network.grads(tape, x, y, when));
      results.back().push_back(host(y.value));
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST_F(Tapes, RecomputePassesInputsThrough) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({1, 1}, {1}));
  const auto out = recompute(tape, {x}, [](Tape& inner, const std::vector<Var>& in) {
    return std::vector<Var>{in[0], ops::add(inner, in[0], in[0])};
  });
  EXPECT_EQ(out[0].slot, x.slot);
  tape.seed(out[1], 2);
  tape.backward();
  EXPECT_EQ(host(tape.grad(x)), Values{4});
}

TEST_F(Tapes, WeightGradientsWaitWhenAskedTo) {
  Network network(device);
  Tape tape(device);
  const Var x = tape.leaf(random({5, 6}, "input", DType::Float32));
  const Var y = network(tape, x);
  tape.seed(y, 1);
  tape.backward(Weights::Later);
  EXPECT_EQ(host(network.weight("a").grad), Values(48, 0.0));
  EXPECT_NE(host(network.weight("gain").grad), Values(6, 0.0)) << "small gradients fall out at once";
  EXPECT_NE(host(tape.grad(x)), Values(30, 0.0));
  tape.backward_weights();
  const Values once = host(network.weight("a").grad);
  EXPECT_NE(once, Values(48, 0.0));
  tape.backward_weights();
  EXPECT_EQ(host(network.weight("a").grad), once) << "the work ran twice";
}

TEST_F(Tapes, ReportCountsSharedMemoryOnce) {
  Tape tape(device);
  const Var x = tape.leaf(tensor({2, 6}, Values(12, 0.5)));
  ops::swiglu(tape, x);
  ops::swiglu(tape, x);
  EXPECT_EQ(tape.report(), (std::map<std::string, std::int64_t>{{"swiglu", 2 * 6 * 8}}));
  const Var other = tape.leaf(tensor({2, 6}, Values(12, 0.5)));
  ops::swiglu(tape, other);
  EXPECT_EQ(tape.report().at("swiglu"), 2 * 2 * 6 * 8);
}

}  // namespace
}  // namespace strata::test
