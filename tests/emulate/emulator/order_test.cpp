// A forgotten barrier shows: outputs differ between schedules, or hold the poison of fresh memory.
#include <cmath>
#include <numeric>

#include "emulate/devices.h"
#include "emulate/emulator/broken_kernels.h"
#include "kernels/emulate/machine.h"

namespace strata::testing {
namespace {

using emulate::Order;

template <class Body>
std::vector<float> run(Order order, int count, Body&& body) {
  cuda::Device device = emulate::open({.schedule = {order, 1}});
  cuda::Stream stream(device);
  std::vector<float> x(count);
  std::iota(x.begin(), x.end(), 1.0f);
  const DeviceArray<float> dx(device, stream, x), dy(device, count);
  body(stream.handle(), dx.data(), dy.data());
  return dy.read(stream);
}

int differences(const std::vector<float>& a, const std::vector<float>& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += std::memcmp(&a[i], &b[i], 4) != 0;
  return count;
}

int poisoned(const std::vector<float>& values) {
  int count = 0;
  for (const float v : values) count += std::isnan(v);
  return count;
}

TEST(Orders, AForgottenBlockBarrierGivesThreeResults) {
  const auto result = [](Order order, bool barrier) {
    return run(order, 64, [&](auto stream, float* x, float* y) { rotate(stream, x, y, 64, barrier); });
  };
  const auto up = result(Order::Ascending, false), down = result(Order::Descending, false),
             mixed = result(Order::Shuffled, false);
  EXPECT_EQ(poisoned(up), 63);  // each thread reads before its neighbour writes, but for the last
  EXPECT_EQ(poisoned(down), 1);
  EXPECT_GT(differences(up, down), 0);
  EXPECT_GT(differences(up, mixed), 0);
  EXPECT_GT(differences(down, mixed), 0);
  const auto right = result(Order::Ascending, true);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(right[i], float((i + 1) % 64 + 1));
  EXPECT_EQ(differences(right, result(Order::Descending, true)), 0);
  EXPECT_EQ(differences(right, result(Order::Shuffled, true)), 0);
}

TEST(Orders, WarpBarriersDoNotHideAForgottenBlockBarrier) {
  const auto result = [](Order order, bool barrier) {
    return run(order, 32, [&](auto stream, float*, float* y) { read_other_warp(stream, y, barrier); });
  };
  EXPECT_EQ(poisoned(result(Order::Ascending, false)), 32);
  EXPECT_EQ(poisoned(result(Order::Descending, false)), 0);
  for (const Order order : {Order::Ascending, Order::Descending, Order::Shuffled})
    EXPECT_EQ(result(order, true)[31], 63);
}

TEST(Orders, AForgottenWarpBarrierGivesTwoResults) {
  const auto result = [](Order order, bool barrier) {
    return run(order, 32, [&](auto stream, float* x, float* y) { rotate_in_warp(stream, x, y, barrier); });
  };
  EXPECT_GT(differences(result(Order::Ascending, false), result(Order::Descending, false)), 0);
  EXPECT_EQ(differences(result(Order::Ascending, true), result(Order::Descending, true)), 0);
}

TEST(Orders, ABlockBarrierDoesNotWaitForThreadsThatLeftBefore) {
  for (const Order order : {Order::Ascending, Order::Descending, Order::Shuffled}) {
    const auto y = run(order, 40, [](auto stream, float* x, float* y) { rotate(stream, x, y, 40, true); });
    for (int i = 0; i < 40; ++i) EXPECT_EQ(y[i], float((i + 1) % 40 + 1));
  }
}

TEST(AsyncCopy, LandsAtTheWaitOnly) {
  const auto result = [](bool wait) {
    return run(Order::Ascending, 64, [&](auto stream, float* x, float* y) { fetch(stream, x, y, wait); });
  };
  EXPECT_EQ(poisoned(result(false)), 64);
  const auto right = result(true);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(right[i], float((i + 1) % 64 + 1));
}

TEST(AsyncCopy, ReadsItsSourceLate) {
  EXPECT_EQ(
      run(Order::Ascending, 4, [](auto stream, float* x, float* y) { fetch_changing_source(stream, x, y); }),
      std::vector<float>(4, -1));
}

TEST(Memory, IsPoisonWhenFresh) {
  EXPECT_EQ(poisoned(run(Order::Ascending, 100, [](auto, float*, float*) {})), 100);
}

TEST(Fibers, KeepLocalArraysAcrossBarriers) {
  const auto y =
      run(Order::Shuffled, 64, [](auto stream, float*, float* y) { keep_local_arrays(stream, y); });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], 1024.0f * float(i) + 523776.0f);
}

}  // namespace
}  // namespace strata::testing
