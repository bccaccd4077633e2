// RMSNorm with and without a gain.
#include "ops/rms_norm.h"

#include <gtest/gtest.h>

#include "reference/rms_norm.h"
#include "support/op_case.h"

namespace strata::test {
namespace {

struct RmsNormCase final : OpCase {
  RmsNormCase(std::int64_t tokens_, std::int64_t width_, bool gain_)
      : tokens(tokens_), width(width_), gain(gain_) {
    releases = Recompute::Norm;
  }
  std::int64_t tokens, width;
  bool gain;
  double eps = 1e-5;

  std::vector<OpInput> inputs() const override {
    std::vector<OpInput> list{{.name = "x", .shape = {tokens, width}}};
    if (gain)
      list.push_back({.name = "w", .shape = {width}, .kind = OpInput::FullWeight, .scale = 0.3, .shift = 1});
    return list;
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    return {ops::rms_norm(tape, args.var("x"), gain ? &args.weight("w") : nullptr, eps)};
  }
  std::vector<reference::Array> reference(const Arrays& in) const override {
    return {reference::rms_norm(in.at("x"), gain ? in.at("w") : reference::Array(), eps)};
  }
};

TEST(RmsNorm, WithGain) { check_op(RmsNormCase(67, 37, true)); }
TEST(RmsNorm, WithoutGain) { check_op(RmsNormCase(13, 64, false)); }
TEST(RmsNorm, OneToken) { check_op(RmsNormCase(1, 41, true)); }
TEST(RmsNorm, ManyTokens) { check_op(RmsNormCase(1031, 5, true)); }

// One column has a gradient near 0: it is eps that is differentiated.
TEST(RmsNorm, OneColumn) {
  RmsNormCase op(19, 1, true);
  op.eps = 0.5;
  check_op(op);
}

}  // namespace
}  // namespace strata::test
