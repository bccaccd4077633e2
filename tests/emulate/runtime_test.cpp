// Memory, copies, streams and events, on the emulator and on a GPU.
#include <numeric>
#include <utility>

#include "base/error.h"
#include "emulate/devices.h"
#include "emulate/sound_kernels.h"

namespace strata::testing {
namespace {

TEST(Runtime, CopiesKeepTheOrderOfTheirStream) {
  on_every_device([](cuda::Device& device) {
    cuda::Stream stream(device);
    std::vector<float> x(1000), y(1000, -1);
    std::iota(x.begin(), x.end(), 0.0f);
    const DeviceArray<float> a(device, 1000), b(device, 1000);
    stream.upload(a.data(), x.data(), 4000);
    stream.copy(b.data(), a.data(), 4000);
    stream.fill(a.data(), 0, 4000);
    add_scaled(stream.handle(), 2, b.data(), a.data(), 1000);
    stream.download(y.data(), a.data(), 4000);
    stream.synchronize();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(y[i], 2.0f * float(i));
  });
}

TEST(Runtime, AnEventOrdersTwoStreams) {
  on_every_device([](cuda::Device& device) {
    cuda::Stream first(device), second(device);
    cuda::Event ready(device);
    const std::vector<float> ones(64, 1);
    std::vector<float> result(64);
    const DeviceArray<float> x(device, first, ones), y(device, first, ones);
    for (int i = 0; i < 10; ++i) add_scaled(first.handle(), 1, x.data(), y.data(), 64);
    first.record(ready);
    second.wait(ready);
    add_scaled(second.handle(), 100, y.data(), x.data(), 64);
    second.download(result.data(), x.data(), 256);
    second.synchronize();
    EXPECT_EQ(result, std::vector<float>(64, 1101));
  });
}

TEST(Runtime, AnEventThatWasNeverRecordedHoldsNobodyUp) {
  on_every_device([](cuda::Device& device) {
    cuda::Stream stream(device);
    cuda::Event never(device);
    stream.wait(never);
    stream.synchronize();
  });
}

TEST(Runtime, MemoryMoves) {
  on_every_device([](cuda::Device& device) {
    cuda::Memory a(device, 64);
    void* data = a.data();
    cuda::Memory b = std::move(a);
    EXPECT_EQ(b.data(), data);
    EXPECT_EQ(a.data(), nullptr);
    a = std::move(b);
    EXPECT_EQ(a.data(), data);
    EXPECT_EQ(a.bytes(), 64);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0u);
  });
}

TEST(Runtime, AGridNeedsItems) {
  on_every_device([](cuda::Device& device) {
    cuda::Stream stream(device);
    const DeviceArray<float> x(device, 1);
    EXPECT_THROW(add_scaled(stream.handle(), 1, x.data(), x.data(), 0), Error);
    EXPECT_THROW(add_scaled(nullptr, 1, x.data(), x.data(), 1), Error);
  });
}

}  // namespace
}  // namespace strata::testing
