// SwiGLU.
#include "ops/swiglu.h"

#include <gtest/gtest.h>

#include "reference/swiglu.h"
#include "support/op_case.h"

namespace strata::test {
namespace {

struct SwiGluCase final : OpCase {
  SwiGluCase(std::int64_t tokens_, std::int64_t width_) : tokens(tokens_), width(width_) {
    releases = Recompute::Activation;
  }
  std::int64_t tokens, width;
  double scale = 2;

  std::vector<OpInput> inputs() const override {
    return {{.name = "x", .shape = {tokens, 2 * width}, .scale = scale}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    return {ops::swiglu(tape, args.var("x"))};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    return {reference::swiglu(in.at("x"))};
  }
};

TEST(SwiGlu, PrimeSizes) { check_op(SwiGluCase(31, 29)); }
TEST(SwiGlu, OneToken) { check_op(SwiGluCase(1, 37)); }
TEST(SwiGlu, OneColumn) { check_op(SwiGluCase(23, 1)); }

// Gates far out on both sides: the sigmoid is 0 or 1 and nothing overflows.
TEST(SwiGlu, SaturatedGates) {
  SwiGluCase op(8, 16);
  op.scale = 100;
  op.difference_tolerance = 1e-5;
  check_op(op);
}

}  // namespace
}  // namespace strata::test
