// Streams lie, memory is foreign: what works on a GPU by luck fails here.
#include <set>

#include "base/error.h"
#include "emulate/devices.h"
#include "emulate/emulator/broken_kernels.h"
#include "emulate/sound_kernels.h"
#include "kernels/emulate/machine.h"

namespace strata::testing {
namespace {

// One stream computes 1 + 10 * 1, another reads it; the wait between them may be forgotten.
float across_streams(std::uint64_t seed, bool with_wait) {
  cuda::Device device = emulate::open({.queued = true, .stream_seed = seed});
  cuda::Stream first(device), second(device);
  cuda::Event ready(device);
  const std::vector<float> one(1, 1);
  float result = 0;
  const DeviceArray<float> x(device, first, one), y(device, first, one);
  for (int i = 0; i < 10; ++i) add_scaled(first.handle(), 1, x.data(), y.data(), 1);
  first.record(ready);
  if (with_wait) second.wait(ready);
  second.download(&result, y.data(), 4);
  second.synchronize();
  return result;
}

TEST(Streams, AMissingWaitGivesWrongNumbersForSomeSeeds) {
  std::set<float> with_wait, without;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    with_wait.insert(across_streams(seed, true));
    without.insert(across_streams(seed, false));
  }
  EXPECT_EQ(with_wait, std::set<float>{11});
  EXPECT_GT(without.size(), 3u);
}

TEST(Streams, AreLate) {
  cuda::Device device = emulate::open({.queued = true});
  cuda::Stream stream(device);
  std::vector<float> host(4, 1), back(4, 0);
  const DeviceArray<float> x(device, 4);
  stream.upload(x.data(), host.data(), 16);
  host.assign(4, 2);  // too early
  stream.download(back.data(), x.data(), 16);
  EXPECT_EQ(back[0], 0);
  stream.synchronize();
  EXPECT_EQ(back[0], 2);
}

TEST(Streams, SynchronizeWaitsForOneStreamOnly) {
  bool left_behind = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    cuda::Device device = emulate::open({.queued = true, .stream_seed = seed});
    cuda::Stream first(device), second(device);
    float result = 0;
    const DeviceArray<float> x(device, first, std::vector<float>(1, 5));
    second.download(&result, x.data(), 4);
    first.synchronize();
    left_behind |= result == 0;
    second.synchronize();
    EXPECT_EQ(result, 5);
  }
  EXPECT_TRUE(left_behind);
}

TEST(Copies, StayInsideOneAllocation) {
  cuda::Device device = emulate::open({});
  cuda::Stream stream(device);
  std::vector<float> host(5);
  const DeviceArray<float> x(device, 4), y(device, 4);
  EXPECT_THROW(stream.upload(x.data(), host.data(), 20), Error);
  EXPECT_THROW(stream.download(host.data(), x.data() + 1, 16), Error);
  EXPECT_THROW(stream.copy(host.data(), x.data(), 16), Error);
  EXPECT_THROW(stream.fill(host.data(), 0, 16), Error);
  EXPECT_NO_THROW(stream.copy(y.data(), x.data(), 16));
}

TEST(Memory, RunsOutWithTheNumbers) {
  cuda::Device device = emulate::open({.memory_bytes = 1 << 20});
  EXPECT_THROW(cuda::Memory(device, 2 << 20), Error);
  EXPECT_NO_THROW(cuda::Memory(device, 1 << 18));
}

TEST(Memory, IsReusedAndFreshAgain) {
  cuda::Device device = emulate::open({.memory_bytes = 1 << 20});
  cuda::Stream stream(device);
  for (int i = 0; i < 100; ++i) {
    const DeviceArray<std::uint32_t> x(device, 1000);
    EXPECT_EQ(x.read(stream)[999], 0xffffffffu);
    stream.fill(x.data(), 0, 4000);
    stream.synchronize();
  }
}

TEST(GuardDeathTest, TheHostCannotTouchDeviceMemory) {
  cuda::Device device = emulate::open({.guard = true});
  const cuda::Memory memory(device, 64);
  EXPECT_DEATH(*memory.as<volatile float>() = 1, "");
  EXPECT_DEATH((void)*memory.as<volatile float>(), "");
}

#if defined(__SANITIZE_ADDRESS__)
TEST(SanitizerDeathTest, NamesTheKernelThatWritesOutOfBounds) {
  cuda::Device device = emulate::open({});
  cuda::Stream stream(device);
  const cuda::Memory memory(device, 60 * sizeof(float));
  EXPECT_DEATH(write_ones(stream.handle(), memory.as<float>(), 61),
               "use-after-poison.*\n(.*\n)*.*ones_kernel");
  EXPECT_DEATH(write_past_shared(stream.handle()), "use-after-poison.*\n(.*\n)*.*past_shared_kernel");
}

TEST(SanitizerDeathTest, SeesReleasedMemory) {
  cuda::Device device = emulate::open({});
  cuda::Stream stream(device);
  float* dangling = cuda::Memory(device, 64).as<float>();
  EXPECT_DEATH(write_ones(stream.handle(), dangling, 1), "use-after-poison");
}
#endif

}  // namespace
}  // namespace strata::testing
