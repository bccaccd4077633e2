// A value under a Var with a wide gradient.
#include "ops/widen_grad.h"

#include <gtest/gtest.h>

#include "ops/add.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

struct WidenGradCase final : OpCase {
  std::vector<OpInput> inputs() const override {
    return {{.name = "a", .shape = {7, 5}}, {.name = "b", .shape = {7, 5}}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    const Var a = ops::widen_grad(tape, args.var("a"));
    return {ops::add(tape, a, args.var("b")), ops::add(tape, args.var("b"), a)};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    const reference::Array y = reference::add(in.at("a"), in.at("b"));
    return {y, y};
  }
};

TEST(WidenGrad, PassesGradientsThrough) { check_op(WidenGradCase()); }

// 1 + 1/256 has 9 significant bits: bfloat16 would lose the second gradient, and the first must not be
// rounded early.
TEST(WidenGrad, SumsInFloat32) {
  device::Device device(device_options());
  Tape tape(device);
  Tensor sum(device, {1, 1}, DType::Float32);
  const Var x = tape.leaf(Tensor(device, {1, 1}, DType::BFloat16), [&] {
    return Grad{sum, Write::Overwrite};
  });
  const Var wide = ops::widen_grad(tape, x);
  EXPECT_EQ(tape.grad_dtype(wide), DType::Float32);
  EXPECT_EQ(wide.value.storage(), x.value.storage());
  const Var one = ops::add(tape, wide, wide), other = ops::add(tape, wide, tape.constant(wide.value));
  tape.seed(one, 0.5);
  tape.seed(other, 1.0 / 256);
  tape.backward();
  EXPECT_EQ(to_host(device, sum, "test").at(0), 1 + 1.0 / 256);
}

TEST(WidenGrad, LeavesWideGradientsAlone) {
  device::Device device(device_options());
  Tape tape(device);
  const Var x = tape.leaf(Tensor(device, {2, 3}, DType::Float32));
  EXPECT_EQ(ops::widen_grad(tape, x).slot, x.slot);
  EXPECT_EQ(ops::widen_grad(tape, tape.constant(x.value)).slot, -1);
}

}  // namespace
}  // namespace strata::test
