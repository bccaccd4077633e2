// Fill and Copy: every type, every conversion, more than one chunk.
#include <gtest/gtest.h>

#include <bit>

#include <cmath>
#include <limits>

#include "kernels/cpu/exp.h"
#include "kernels/jobs.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

constexpr std::int64_t kCount = 40009;
constexpr DType kFloats[] = {DType::Float32, DType::Float64, DType::BFloat16};

double rounded(double v, DType type) {
  if (type == DType::Float64) return v;
  return type == DType::Float32 ? double(float(v)) : double(float(bfloat16(float(v))));
}

std::vector<double> thirds() {
  std::vector<double> v(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) v[i] = double(i - 1000) / 3;
  return v;
}

TEST(Fill, EveryType) {
  device::Device device(device_options());
  for (const DType type : {DType::Float32, DType::Float64, DType::BFloat16, DType::Int32, DType::Int64}) {
    const Tensor t(device, {kCount}, type);
    device.compute().run(kernels::Fill{.y = t, .value = -3});
    EXPECT_EQ(to_host(device, t, "test"), std::vector<double>(kCount, -3.0)) << name_of(type);
  }
}

TEST(Fill, OnlyItsOwnElements) {
  device::Device device(device_options());
  const Tensor t(device, {5}, DType::Float32);
  device.compute().run(kernels::Fill{.y = t, .value = 1});
  device.compute().run(kernels::Fill{.y = t.slice(1, 3), .value = 2});
  device.compute().run(kernels::Fill{.y = t.slice(4, 4), .value = 9});
  EXPECT_EQ(to_host(device, t, "test"), (std::vector<double>{1, 2, 2, 1, 1}));
}

TEST(Copy, EveryConversion) {
  device::Device device(device_options());
  for (const DType from : kFloats)
    for (const DType to : kFloats) {
      const Tensor x(device, {kCount}, from), y(device, {kCount}, to);
      from_host(device, x, thirds());
      device.compute().run(kernels::Copy{.x = x, .y = y});
      std::vector<double> expected = thirds();
      for (double& v : expected) v = rounded(rounded(v, from), to);
      EXPECT_EQ(to_host(device, y, "test"), expected) << name_of(from) << " to " << name_of(to);
    }
}

TEST(Copy, AddsInTheWiderType) {
  device::Device device(device_options());
  for (const DType from : kFloats)
    for (const DType to : kFloats) {
      const Tensor x(device, {kCount}, from), y(device, {kCount}, to);
      from_host(device, x, thirds());
      from_host(device, y, std::vector<double>(kCount, 0.75));
      device.compute().run(kernels::Copy{.x = x, .y = y, .mode = Write::Accumulate});
      std::vector<double> expected = thirds();
      const bool wide = from == DType::Float64 || to == DType::Float64;
      for (double& v : expected)
        v = rounded(rounded(rounded(v, from) + 0.75, wide ? DType::Float64 : DType::Float32), to);
      EXPECT_EQ(to_host(device, y, "test"), expected) << name_of(from) << " onto " << name_of(to);
    }
}

// bfloat16 keeps 8 bits: ties go to the even neighbour, and NaN stays NaN.
TEST(Copy, RoundsToNearestEven) {
  device::Device device(device_options());
  const Tensor x(device, {6}, DType::Float32), y(device, {6}, DType::BFloat16);
  const double infinity = std::numeric_limits<double>::infinity(), step = 0x1p-7;
  from_host(
      device, x,
      std::vector<double>{1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 0x1p-20, -infinity, 3.4e38, NAN});
  device.compute().run(kernels::Copy{.x = x, .y = y});
  const std::vector<double> got = to_host(device, y, "test");
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(got[1], 1 + 2 * step);
  EXPECT_EQ(got[2], 1 + step);
  EXPECT_EQ(got[3], -infinity);
  EXPECT_EQ(got[4], infinity);
  EXPECT_TRUE(std::isnan(got[5]));
}

TEST(Copy, RefusesAnotherSize) {
  device::Device device;
  const Tensor x(device, {3}, DType::Float32), y(device, {4}, DType::Float32);
  EXPECT_THROW(device.compute().run(kernels::Copy{.x = x, .y = y}), Error);
}

TEST(FastExp, IsWithinTwoUnitsOfTheLastPlace) {
  double worst = 0;
  for (float x = -87; x < 88.7f; x += 0.00137f) {
    const double exact = std::exp(double(x));
    worst = std::max(worst, std::abs(kernels::fast_exp(x) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
}

TEST(FastExp, Edges) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kernels::fast_exp(0.0f), 1.0f);
  EXPECT_EQ(kernels::fast_exp(-infinity), 0.0f);
  EXPECT_EQ(kernels::fast_exp(-100.0f), 0.0f);
  EXPECT_EQ(kernels::fast_exp(infinity), infinity);
  EXPECT_EQ(kernels::fast_exp(89.0f), infinity);
  EXPECT_TRUE(std::isnan(kernels::fast_exp(NAN)));
  EXPECT_TRUE(std::isnan(kernels::fast_exp(std::bit_cast<float>(0xFFFFFFFFu))));  // what fresh memory holds
  EXPECT_EQ(kernels::sigmoid(-200.0f), 0.0f);
  EXPECT_EQ(kernels::sigmoid(200.0f), 1.0f);
}

}  // namespace
}  // namespace strata::test
