// A matrix for each head, both ways, with dims that pass by, at several tokens.
#include "ops/head_linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

constexpr std::int64_t kTokens = 3, kHeads = 4, kGroup = 9, kRank = 7, kRest = 2;

struct HeadLinear : ::testing::Test {
  device::Device device{device_options()};
  Tape tape{device, {.recording = false, .recompute = {}, .observer = nullptr}};
  ParameterStore store;
  Parameter& w = store.add({.name = "w", .dims = {kHeads * kGroup, kRank}, .init = Init::normal(1)});
  std::vector<double> weight;

  void SetUp() override {
    store.allocate(device, DType::Float64, false);
    store.initialize(1);
    weight = to_host(device, w.value, "test");
  }
  Var input(std::int64_t width, std::vector<double>& values) {
    values.resize(kTokens * kHeads * width);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(double(i * i));
    const Tensor x(device, {kTokens, kHeads * width}, DType::Float64);
    from_host(device, x, values);
    return tape.constant(x);
  }
  double at(std::int64_t head, std::int64_t row, std::int64_t r) const {
    return weight[(head * kGroup + row) * kRank + r];
  }
};

TEST_F(HeadLinear, RowsOfEveryHead) {
  std::vector<double> x;
  const Var y = ops::head_linear(tape, input(5 + kRest, x), w, {kHeads, 1, 6});
  std::vector<double> want;
  for (std::int64_t i = 0; i < kTokens * kHeads; ++i) {
    for (std::int64_t r = 0; r < kRank; ++r) {
      want.push_back(0);
      for (std::int64_t k = 0; k < 5; ++k) want.back() += x[i * 7 + k] * at(i % kHeads, 1 + k, r);
    }
    want.insert(want.end(), {x[i * 7 + 5], x[i * 7 + 6]});
  }
  EXPECT_LE(relative_error(to_host(device, y.value, "test"), want), 1e-15);
}

TEST_F(HeadLinear, Transposed) {
  std::vector<double> x;
  const Var y = ops::head_linear_transposed(tape, input(kRank, x), w, {kHeads, 6, 9});
  std::vector<double> want;
  for (std::int64_t i = 0; i < kTokens * kHeads; ++i)
    for (std::int64_t o = 0; o < 3; ++o) {
      want.push_back(0);
      for (std::int64_t r = 0; r < kRank; ++r) want.back() += x[i * kRank + r] * at(i % kHeads, 6 + o, r);
    }
  EXPECT_LE(relative_error(to_host(device, y.value, "test"), want), 1e-15);
}

TEST_F(HeadLinear, RefusesWrongShapesAndBackward) {
  std::vector<double> x;
  const Var five = input(5, x);
  EXPECT_NO_THROW(ops::head_linear(tape, five, w, {kHeads, 0, 5}));
  EXPECT_THROW(ops::head_linear(tape, five, w, {kHeads, 0, 6}), Error);
  EXPECT_THROW(ops::head_linear(tape, five, w, {kHeads, 5, 10}), Error);
  EXPECT_THROW(ops::head_linear(tape, five, w, {3, 0, 5}), Error);
  EXPECT_THROW(ops::head_linear_transposed(tape, five, w, {kHeads, 0, 5}), Error);
  Tape recording(device);
  EXPECT_THROW(ops::head_linear(recording, five, w, {kHeads, 0, 5}), Error);
}

}  // namespace
}  // namespace strata::test
