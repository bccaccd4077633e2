#include "ops/hyper.h"

#include <gtest/gtest.h>

#include "reference/fusion.h"
#include "reference/hyper_connection.h"
#include "support/op_case.h"

namespace strata::test {
namespace {

using reference::Array;

// Coefficients, read and write of one sub-layer whose output is `y`.
struct HyperCase final : OpCase {
  std::int64_t T, n, D, iterations;
  bool has_streams = true;  // false: a block's first sub-layer, X' = H_post y
  HyperCase(std::int64_t t, std::int64_t streams, std::int64_t d, std::int64_t iters)
      : T(t), n(streams), D(d), iterations(iters) {
    difference_tolerance = 1e-5;
    float32_tolerance = 2e-4;  // the alphas' gradients are sums of terms that cancel
  }
  std::vector<OpInput> inputs() const override {
    const auto w = OpInput::FullWeight;
    return {{"x", {T, n, D}},
            {"y", {T, D}},
            {"phi", {n * n + 2 * n, n * D}, w, 0.3},
            {"alpha_pre", {1}, w, 0.5, 1},
            {"alpha_post", {1}, w, 0.5, 1},
            {"alpha_res", {1}, w, 0.5, 1},
            {"bias_pre", {n}, w},
            {"bias_post", {n}, w},
            {"bias_res", {n, n}, w}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& a) const override {
    const ops::HyperParameters p{&a.weight("phi"),       &a.weight("alpha_pre"), &a.weight("alpha_post"),
                                 &a.weight("alpha_res"), &a.weight("bias_pre"),  &a.weight("bias_post"),
                                 &a.weight("bias_res")};
    const Var coef = ops::hyper_coef(tape, a.var("x"), p, iterations, 1e-6);
    const Var z = ops::hyper_read(tape, a.var("x"), coef);
    const Var next = ops::hyper_write(tape, has_streams ? &a.var("x") : nullptr, a.var("y"), coef, n);
    return {z, next};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const auto scalar = [&](const char* name) { return in.at(name).data[0]; };
    const reference::HyperParameters p{in.at("phi"),        scalar("alpha_pre"), scalar("alpha_post"),
                                       scalar("alpha_res"), in.at("bias_pre"),   in.at("bias_post"),
                                       in.at("bias_res")};
    const auto c = reference::hyper_coefficients(in.at("x"), p, iterations, 1e-6);
    const Array next = has_streams ? reference::hyper_write(in.at("x"), in.at("y"), c.res, c.post)
                                   : reference::hyper_spread(in.at("y"), c.post);
    return {reference::hyper_pre_mix(in.at("x"), c.pre), next};
  }
};

TEST(Hyper, FourStreams) { check_op(HyperCase(19, 4, 11, 20)); }
TEST(Hyper, TwoStreamsOneToken) { check_op(HyperCase(1, 2, 7, 20)); }
TEST(Hyper, ThreeToEightStreamsFewIterations) {
  for (const std::int64_t n : {3, 5, 6, 7, 8}) {
    HyperCase c(5, n, 3, 3);
    c.float32_tolerance = 1e-4;  // the gradients of the alphas are sums that nearly cancel
    check_op(c);
  }
}
TEST(Hyper, OneStream) { check_op(HyperCase(17, 1, 5, 1)); }
TEST(Hyper, WithoutStreams) {
  HyperCase c(9, 3, 5, 4);
  c.has_streams = false;
  check_op(c);
}

struct StreamsCase final : OpCase {
  std::vector<OpInput> inputs() const override { return {{"x", {13, 7}}, {"s", {13, 3, 7}}}; }
  std::vector<Var> run(Tape& tape, const OpArgs& a) const override {
    return {ops::spread_streams(tape, a.var("x"), 4), ops::sum_streams(tape, a.var("s"), 0.25)};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    Array sum = reference::fuse_sum(in.at("s"));
    for (double& v : sum.data) v *= 0.25;
    return {reference::copy_to_streams(in.at("x"), 4), sum};
  }
};

TEST(Hyper, SpreadAndSum) { check_op(StreamsCase()); }

}  // namespace
}  // namespace strata::test
