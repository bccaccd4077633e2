// Dense layers of odd sizes, several readers of one input, and weights without gradient.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include "reference/linear.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

struct LinearCase final : OpCase {
  LinearCase(std::int64_t tokens_, std::int64_t in_, std::int64_t out_)
      : tokens(tokens_), in(in_), out(out_) {}
  std::int64_t tokens, in, out;
  bool wide = false;  // the result in Acc, as for logits
  OpInput::Kind weight = OpInput::Weight;

  std::vector<OpInput> inputs() const override {
    return {{.name = "x", .shape = {tokens, in}}, {.name = "w", .shape = {out, in}, .kind = weight}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    const Var& x = args.var("x");
    if (!wide) return {ops::linear(tape, x, args.weight("w"))};
    return {ops::linear(tape, x, args.weight("w"), acc_of(x.value.dtype()))};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    return {reference::linear(in.at("x"), in.at("w"))};
  }
};

TEST(Linear, PrimeSizes) { check_op(LinearCase(31, 17, 23)); }
TEST(Linear, SeveralTiles) { check_op(LinearCase(131, 67, 149)); }
TEST(Linear, OneToken) { check_op(LinearCase(1, 19, 29)); }
TEST(Linear, OneInput) { check_op(LinearCase(11, 1, 7)); }
TEST(Linear, OneOutput) { check_op(LinearCase(11, 7, 1)); }
TEST(Linear, Deep) { check_op(LinearCase(5, 1031, 3)); }

TEST(Linear, WideResult) {
  LinearCase op(13, 11, 17);
  op.wide = true;
  check_op(op);
}

// The router's and the gates' weights stay in float32 beside bfloat16 activations.
TEST(Linear, WideWeight) {
  LinearCase op(13, 11, 17);
  op.wide = true;
  op.weight = OpInput::FullWeight;
  check_op(op);
}

// Two layers read one input: its gradient is written once and added once.
struct TwoReadersCase final : OpCase {
  std::vector<OpInput> inputs() const override {
    return {{.name = "x", .shape = {9, 14}},
            {.name = "v", .shape = {5, 14}, .kind = OpInput::Weight},
            {.name = "w", .shape = {14, 14}, .kind = OpInput::Weight}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    return {ops::linear(tape, args.var("x"), args.weight("v")),
            ops::linear(tape, args.var("x"), args.weight("w"))};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    return {reference::linear(in.at("x"), in.at("v")), reference::linear(in.at("x"), in.at("w"))};
  }
};

TEST(Linear, TwoReaders) { check_op(TwoReadersCase()); }

TEST(Linear, FrozenWeightGetsNoGradientAndKeepsNoInput) {
  device::Device device(device_options());
  ParameterStore store;
  Parameter& w = store.add({.name = "w", .dims = {2, 3}, .init = {}});
  store.allocate(device, DType::Float64, false);
  store.set("w", {1, 2, 3, 4, 5, 6});
  Tape tape(device);
  const Var x = tape.leaf(upload(device, reference::Array({1, 3}, {1, 1, 1}), DType::Float64));
  const Var y = ops::linear(tape, x, w);
  EXPECT_TRUE(tape.report().empty());
  tape.seed(y, 1);
  tape.backward();
  EXPECT_EQ(to_host(device, tape.grad(x), "test"), (std::vector<double>{5, 7, 9}));
}

TEST(Linear, NamesTheShapesThatDoNotFit) {
  device::Device device(device_options());
  ParameterStore store;
  Parameter& w = store.add({.name = "w", .dims = {2, 3}, .init = {}});
  store.allocate(device, DType::Float32);
  Tape tape(device);
  try {
    ops::linear(tape, tape.leaf(Tensor(device, {4, 5}, DType::Float32)), w);
    FAIL() << "a width of 5 met a weight of width 3";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("linear: weight[O I] has I=3, but I=5"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace strata::test
