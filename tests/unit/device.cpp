// The CPU device: order of queued jobs, events, guarded and poisoned memory, reuse, counting.
#include "device/device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "kernels/jobs.h"
#include "tensor/tensor.h"

namespace strata::test {
namespace {

using device::Device;
using device::Event;
using device::Purpose;
using device::StreamMode;

// The order in which two streams of three jobs each run.
std::string order(std::uint64_t seed, bool ordered = false) {
  Device device({.mode = StreamMode::Queued, .guard = false, .fill_nan = false, .seed = seed});
  device::Stream other = device.make_stream();
  std::string text;
  for (const char c : {'a', 'b', 'c'}) device.compute().host_work([&text, c] { text += c; });
  if (ordered) {
    Event done;
    device.compute().record(done);
    EXPECT_FALSE(done.done());
    other.wait(done);
  }
  for (const char c : {'x', 'y', 'z'}) other.host_work([&text, c] { text += c; });
  EXPECT_EQ(text, "") << "queued work ran before anybody synchronised";
  device.compute().synchronize();
  return text;
}

TEST(Queue, StreamsInterleaveByTheSeed) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = order(seed);
    EXPECT_EQ(text, order(seed));
    std::string first, second;
    for (const char c : text) (c < 'd' ? first : second) += c;
    EXPECT_EQ(first + second, "abcxyz") << "one stream's jobs changed places";
    orders.insert(text);
  }
  EXPECT_GT(orders.size(), 5u);
}

TEST(Queue, EventsOrderStreams) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(order(seed, true), "abcxyz");
}

TEST(Queue, WaitingForNothingIsAnError) {
  device::JobQueue queue(StreamMode::Queued, 0, [](bool) {}), elsewhere(StreamMode::Queued, 0, [](bool) {});
  const int stream = queue.add_stream();
  Event event;
  elsewhere.record(elsewhere.add_stream(), event);  // in a queue that never runs
  queue.wait(stream, event);
  EXPECT_THROW(queue.drain(), Error);
  elsewhere.drain();
  EXPECT_NO_THROW(queue.drain());
}

TEST(Queue, InlineRunsAtOnce) {
  Device device;
  bool ran = false;
  device.compute().host_work([&] { ran = true; });
  EXPECT_TRUE(ran);
  Event e;
  device.compute().record(e);
  EXPECT_TRUE(e.done());
}

TEST(Queue, JobsThrowWhenTheyRun) {
  Device device({.mode = StreamMode::Queued, .guard = false, .fill_nan = false, .seed = 0});
  const Tensor x(device, {2}, DType::Float32), y(device, {3}, DType::Float32);
  device.compute().run(kernels::Copy{.x = x, .y = y});
  EXPECT_THROW(device.compute().synchronize(), Error);
}

struct Names final : device::JobObserver {
  std::vector<std::string> seen;
  void before(const device::JobInfo& job) override { seen.push_back("<" + std::string(job.name)); }
  void after(const device::JobInfo& job) override { seen.push_back(std::string(job.name) + ">"); }
};

struct Flops final : device::JobObserver {
  double sum = 0;
  void before(const device::JobInfo& job) override { sum += job.flops; }
  void after(const device::JobInfo&) override {}
};

// More memory than any machine has, touched by nobody.
TEST(Device, DryCountsAndTouchesNothing) {
  Device device({.mode = StreamMode::Dry, .guard = false, .fill_nan = false, .seed = 0});
  Flops flops;
  device.compute().observe(&flops);
  constexpr std::int64_t n = std::int64_t(1) << 20;
  {
    const Tensor a(device, {n, n}, DType::Float32), b(device, {n, n}, DType::Float32);
    const Tensor c(device, {n, n}, DType::Float32);
    device.compute().run(kernels::Gemm{.a = a, .b = b, .c = c});
    EXPECT_EQ(to_host(device, c.at(0, {2}), "test"), (std::vector<double>{0, 0}));
  }
  EXPECT_EQ(flops.sum, 2.0 * n * n * n);
  EXPECT_EQ(device.memory().total().peak, 3 * n * n * 4);
  EXPECT_EQ(device.memory().total().now, 0);
}

TEST(Stream, ObserverSeesEveryJob) {
  Device device;
  Names names;
  device.compute().observe(&names);
  const Tensor x(device, {2}, DType::Float32), y(device, {2}, DType::Float32);
  device.compute().run(kernels::Fill{.y = x, .value = 1});
  device.compute().run(kernels::Copy{.x = x, .y = y});
  EXPECT_EQ(names.seen, (std::vector<std::string>{"<fill", "fill>", "<copy", "copy>"}));
}

// Of the moment of submission, whenever a job runs.
TEST(Stream, JobsKnowTheirPhase) {
  struct Phases final : device::JobObserver {
    std::vector<device::Phase> seen;
    void before(const device::JobInfo& job) override { seen.push_back(job.phase); }
    void after(const device::JobInfo&) override {}
  } phases;
  Device device({.mode = StreamMode::Queued, .guard = false, .fill_nan = false, .seed = 0});
  device.compute().observe(&phases);
  const Tensor x(device, {2}, DType::Float32);
  const auto fill = [&] { device.compute().run(kernels::Fill{.y = x, .value = 1}); };
  using enum device::Phase;
  {
    const device::PhaseScope outer(device.compute(), Backward);
    fill();
    {
      const device::PhaseScope inner(device.compute(), Recompute);
      fill();
    }
    fill();
  }
  fill();
  device.compute().synchronize();
  EXPECT_EQ(phases.seen, (std::vector<device::Phase>{Backward, Recompute, Backward, Forward}));
}

TEST(Memory, FreshMemoryIsNaN) {
  Device device({.mode = StreamMode::Inline, .guard = false, .fill_nan = true, .seed = 0});
  for (const DType type : {DType::Float32, DType::Float64, DType::BFloat16})
    for (const double v : to_host(device, Tensor(device, {9}, type), "test")) EXPECT_TRUE(std::isnan(v));
  auto storage = std::make_shared<device::Storage>(device, 8, Purpose::Data);
  device.upload(storage->data(), std::vector<double>{1}.data(), 8);
  storage->drop();
  storage->refill();
  double value = 0;
  device.read_back(&value, storage->data(), 8, "test");
  EXPECT_TRUE(std::isnan(value)) << "refilled memory still holds the old value";
}

TEST(MemoryDeathTest, GuardedMemoryIsOutOfReachForTheHost) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Device device({.mode = StreamMode::Inline, .guard = true, .fill_nan = false, .seed = 0});
  const Tensor x(device, {4}, DType::Float64);
  const volatile double* const data = x.view().as<double>();
#if !defined(__SANITIZE_ADDRESS__)  // there, memory comes from the sanitizer
  EXPECT_DEATH(static_cast<void>(data[2]), "") << "before any job";
#endif
  from_host(device, x, std::vector<double>{1, 2, 3, 4});
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_DEATH(static_cast<void>(data[2]), "") << "after a job";
#endif
  EXPECT_EQ(to_host(device, x, "test"), (std::vector<double>{1, 2, 3, 4}));
  double inside = 0;
  device.compute().host_work([&] { inside = data[2]; });
  EXPECT_EQ(inside, 3);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Memory, IsReusedBySize) {
  Device device;
  const void* first = Tensor(device, {1000}, DType::Float32).view().data;
  const std::int64_t reserved = device.memory().reserved();
  const Tensor again(device, {1000}, DType::Float32), more(device, {1000}, DType::Float32);
  EXPECT_EQ(again.view().data, first);
  EXPECT_NE(more.view().data, first);
  EXPECT_EQ(device.memory().reserved(), reserved);
  const Tensor large(device, {std::int64_t(6) << 20}, DType::Float32);
  EXPECT_GT(device.memory().reserved(), reserved);
}
#endif

TEST(Memory, IsAligned) {
  Device device;
  for (const std::int64_t n : {1, 3, 17, 1001, 77777})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor(device, {n}, DType::BFloat16).view().data) % 64, 0u);
}

TEST(Memory, PeaksAreCountedByPurpose) {
  Device device;
  const device::Allocator& memory = device.memory();
  const Tensor kept(device, {100}, DType::Float32, Purpose::Parameters);
  {
    const Tensor a(device, {10}, DType::Float64), b(device, {5}, DType::Float64);
    EXPECT_EQ(memory.use(Purpose::Activations).now, 120);
  }
  const Tensor c(device, {3}, DType::Float64);
  EXPECT_EQ(memory.use(Purpose::Activations).now, 24);
  EXPECT_EQ(memory.use(Purpose::Activations).peak, 120);
  EXPECT_EQ(memory.use(Purpose::Parameters).peak, 400);
  EXPECT_EQ(memory.use(Purpose::Gradients).peak, 0);
  EXPECT_EQ(memory.total().now, 424);
  EXPECT_EQ(memory.total().peak, 520);
  device.memory().reset_peaks();
  EXPECT_EQ(memory.use(Purpose::Activations).peak, 24);
  EXPECT_EQ(memory.total().peak, 424);
}

TEST(Memory, ReadBacksAreCountedByReason) {
  Device device;
  const Tensor x(device, {2}, DType::Float32);
  to_host(device, x, "loss");
  to_host(device, x, "loss");
  to_host(device, x, "norm");
  EXPECT_EQ(device.read_backs(), (std::map<std::string, std::int64_t>{{"loss", 2}, {"norm", 1}}));
}

TEST(Memory, UploadsKeepTheirOwnCopy) {
  Device device({.mode = StreamMode::Queued, .guard = true, .fill_nan = true, .seed = 0});
  const Tensor x(device, {3}, DType::Float32);
  std::vector<double> values{1, 2, 3};
  from_host(device, x, values);
  values.assign(3, 0);
  EXPECT_EQ(to_host(device, x, "test"), (std::vector<double>{1, 2, 3}));
}

}  // namespace
}  // namespace strata::test
