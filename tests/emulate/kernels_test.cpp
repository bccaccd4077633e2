// Sound kernels compute what they should, with the same bits under every schedule.
#include <algorithm>
#include <cmath>
#include <random>

#include "emulate/devices.h"
#include "emulate/sound_kernels.h"

namespace strata::testing {
namespace {

template <class T>
std::vector<T> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> values(count);
  for (T& v : values) v = T(normal(random));
  return values;
}

template <class Element>
void check_normalize(double tolerance) {
  constexpr int kRows = 5, kWidth = 70;
  const auto x = random_values<Element>(kRows * kWidth, 1);
  const auto y = same_on_every_device<Element>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<Element> dx(device, stream, x), dy(device, kRows * kWidth);
    normalize_rows(stream.handle(), dx.data(), dy.data(), kRows, kWidth, 1e-6f);
    return dy.read(stream);
  });
  for (int row = 0; row < kRows && !y.empty(); ++row) {
    double squares = 0;
    for (int i = 0; i < kWidth; ++i) squares += double(x[row * kWidth + i]) * double(x[row * kWidth + i]);
    const double scale = 1 / std::sqrt(squares / kWidth + 1e-6f);
    for (int i = 0; i < kWidth; ++i)
      ASSERT_NEAR(double(y[row * kWidth + i]), double(x[row * kWidth + i]) * scale, tolerance)
          << row << " " << i;
  }
}

TEST(Kernels, NormalizeRowsFloat) { check_normalize<float>(1e-6); }
TEST(Kernels, NormalizeRowsDouble) { check_normalize<double>(1e-14); }
TEST(Kernels, NormalizeRowsBfloat16) { check_normalize<bfloat16>(1e-2); }

template <class T>
void check_reduce(int threads, double tolerance) {
  constexpr int kBlocks = 3;
  const auto x = random_values<T>(kBlocks * threads, 2);
  const auto results = same_on_every_device<T>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<T> dx(device, stream, x), results(device, 2 * kBlocks);
    reduce_blocks(stream.handle(), dx.data(), results.data(), results.data() + kBlocks, kBlocks, threads);
    return results.read(stream);
  });
  for (int block = 0; block < kBlocks && !results.empty(); ++block) {
    double sum = 0, largest = -1e30;
    for (int i = 0; i < threads; ++i) {
      sum += double(x[block * threads + i]);
      largest = std::max(largest, double(x[block * threads + i]));
    }
    EXPECT_NEAR(double(results[block]), sum, tolerance) << threads << " threads";
    EXPECT_EQ(double(results[kBlocks + block]), largest) << threads << " threads";
  }
}

TEST(Kernels, BlockReductions) {
  for (const int threads : {32, 96, 256, 1024}) {
    check_reduce<float>(threads, 1e-4);
    check_reduce<double>(threads, 1e-12);
  }
}

TEST(Kernels, MmaMultipliesTiles) {
  const auto a = random_values<bfloat16>(16 * 16, 3), b = random_values<bfloat16>(8 * 16, 4);
  const auto c = same_on_every_device<float>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<bfloat16> da(device, stream, a), db(device, stream, b);
    const DeviceArray<float> dc(device, 16 * 8);
    multiply_tile(stream.handle(), da.data(), db.data(), dc.data());
    return dc.read(stream);
  });
  for (int i = 0; i < 16 && !c.empty(); ++i)
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum += double(a[i * 16 + k]) * double(b[j * 16 + k]);
      EXPECT_NEAR(c[i * 8 + j], sum, 1e-5) << i << " " << j;
    }
}

TEST(Kernels, AsyncCopiesInStages) {
  const auto x = random_values<float>(4 * 128, 5);
  const auto y = same_on_every_device<float>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<float> dx(device, stream, x), dy(device, 4 * 128);
    copy_in_stages(stream.handle(), dx.data(), dy.data());
    return dy.read(stream);
  });
  if (!y.empty()) {
    EXPECT_EQ(x, y);
  }
}

TEST(Kernels, WarpWords) {
  const auto y = same_on_every_device<int>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<int> dy(device, 7 * 32);
    warp_words(stream.handle(), dy.data());
    return dy.read(stream);
  });
  for (int lane = 0; lane < 32 && !y.empty(); ++lane) {
    const bool low = lane < 16;
    EXPECT_EQ(y[lane], 5);
    EXPECT_EQ(y[32 + lane], lane ^ 3);
    EXPECT_EQ(y[64 + lane], lane < 2 ? lane : lane - 2);
    EXPECT_EQ(y[96 + lane], lane > 29 ? lane : lane + 2);
    EXPECT_EQ(unsigned(y[128 + lane]), low ? 0x0000aaaau : 0xaaaa0000u);
    EXPECT_EQ(y[160 + lane] != 0, low);
    EXPECT_EQ(y[192 + lane] != 0, low);
  }
}

TEST(Kernels, IntegerAtomicsCountAcrossBlocks) {
  constexpr int kValues = 5, kCount = 1000;
  std::vector<int> x(kCount);
  std::vector<std::int64_t> expected(kValues, 0);
  for (int i = 0; i < kCount; ++i) ++expected[x[i] = i * i % kValues];
  const auto counts = same_on_every_device<std::int64_t>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<int> dx(device, stream, x);
    const DeviceArray<std::int64_t> dc(device, kValues);
    stream.fill(dc.data(), 0, kValues * 8);
    count_values(stream.handle(), dx.data(), kCount, dc.data());
    return dc.read(stream);
  });
  if (!counts.empty()) {
    EXPECT_EQ(counts, expected);
  }
}

TEST(Kernels, IndicesInThreeDimensions) {
  constexpr int kThreads = 2 * 3 * 2 * 4 * 2 * 3;
  const auto y = same_on_every_device<int>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<int> dy(device, kThreads);
    number_threads(stream.handle(), dy.data());
    return dy.read(stream);
  });
  for (int i = 0; i < int(y.size()); ++i) EXPECT_EQ(y[i], i);
}

TEST(Kernels, Packs) {
  const auto x = random_values<float>(4 * 100, 6);
  const auto y = same_on_every_device<float>([&](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<float> dx(device, stream, x), dy(device, 4 * 100);
    copy_packed(stream.handle(), dx.data(), dy.data(), 4 * 100);
    return dy.read(stream);
  });
  if (!y.empty()) {
    EXPECT_EQ(x, y);
  }
}

}  // namespace
}  // namespace strata::testing
