#include "ops/rows.h"

#include <gtest/gtest.h>

#include "support/op_case.h"

namespace strata::test {
namespace {

using reference::Array;

// x -> rows by expert -> weighted rows back: what surrounds the experts, with the choices given.
struct RowsCase final : OpCase {
  std::int64_t T, K, E, D;
  RowsCase(std::int64_t t, std::int64_t k, std::int64_t e, std::int64_t d) : T(t), K(k), E(e), D(d) {}

  std::int64_t choice(std::int64_t t, std::int64_t k) const { return (t * t + 2 * k) % E; }
  std::vector<OpInput> inputs() const override {
    return {{"x", {T, D}}, {"gates", {T, K}, OpInput::FullActivation}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    std::vector<std::int64_t> indices;
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t k = 0; k < K; ++k) indices.push_back(choice(t, k));
    const ops::RoutingPlan plan = ops::plan_routing(tape, upload_int(tape.device(), indices, {T, K}), E);
    const Var rows = ops::gather_rows(tape, args.var("x"), plan);
    return {ops::combine_rows(tape, rows, args.var("gates"), plan)};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    Array y({T, D});
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t k = 0; k < K; ++k)
        for (std::int64_t d = 0; d < D; ++d) y(t, d) += in.at("gates")(t, k) * in.at("x")(t, d);
    return {y};
  }
};

// Rows sorted by expert, one choice each, to where they came from.
struct RestoreCase final : OpCase {
  std::int64_t R, E, D;
  RestoreCase(std::int64_t r, std::int64_t e, std::int64_t d) : R(r), E(e), D(d) {}

  std::vector<std::int64_t> choices() const {
    std::vector<std::int64_t> chosen;
    for (std::int64_t r = 0; r < R; ++r) chosen.push_back((r * r + 1) % E);
    return chosen;
  }
  std::vector<OpInput> inputs() const override { return {{"rows", {R, D}}}; }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    const Tensor indices = upload_int(tape.device(), choices(), {R});
    return {ops::restore_rows(tape, args.var("rows"), ops::plan_routing(tape, indices, E))};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const std::vector<std::int64_t> chosen = choices();
    Array y({R, D});
    std::int64_t row = 0;
    for (std::int64_t e = 0; e < E; ++e)
      for (std::int64_t r = 0; r < R; ++r)
        if (chosen[r] == e) {
          for (std::int64_t d = 0; d < D; ++d) y(r, d) = in.at("rows")(row, d);
          ++row;
        }
    return {y};
  }
};

TEST(Rows, Restored) { check_op(RestoreCase(23, 5, 7)); }
TEST(Rows, Several) { check_op(RowsCase(17, 3, 7, 13)); }
TEST(Rows, OneToken) { check_op(RowsCase(1, 2, 40, 5)); }
TEST(Rows, OneExpert) { check_op(RowsCase(35, 1, 1, 8)); }

TEST(Rows, GatheredRowsAreTheTokensOfEachExpert) {
  device::Device device;
  Tape tape(device);
  const ops::RoutingPlan plan = ops::plan_routing(tape, upload_int(device, {1, 0, 0, 1}, {2, 2}), 2);
  const Var x = tape.leaf(upload(device, Array({2, 1}, {10, 20}), DType::Float32));
  const Var rows = ops::gather_rows(tape, x, plan);
  EXPECT_EQ(to_host(device, rows.value, "test"), (std::vector<double>{10, 20, 10, 20}));
}

}  // namespace
}  // namespace strata::test
