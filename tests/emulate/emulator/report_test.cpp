// What is wrong with a kernel is said with the block, the threads and the line.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "emulate/devices.h"
#include "emulate/emulator/broken_kernels.h"
#include "kernels/emulate/machine.h"

namespace strata::testing {
namespace {

// What the stream says at the end under one schedule; empty if all is well.
std::string complaint(const std::function<void(cuda::Device&, cuda::Stream&)>& body,
                      const emulate::Options& options = {}) {
  cuda::Device device = emulate::open(options);
  cuda::Stream stream(device);
  try {
    body(device, stream);
    stream.synchronize();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The complaint about a launch has all the parts, whatever the order of the threads.
void expect_report(void (*kernel)(StreamHandle), const std::vector<std::string>& parts) {
  using emulate::Order;
  for (const Order order : {Order::Ascending, Order::Descending, Order::Shuffled}) {
    const std::string text =
        complaint([&](auto&, cuda::Stream& stream) { kernel(stream.handle()); }, {.schedule = {order, 7}});
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos)
          << "order " << int(order) << ": no \"" << part << "\" in\n"
          << text;
  }
}

TEST(Report, BarrierDivergence) {
  expect_report(diverge, {"block (0,0,0)", "no thread can go on",
                          "threads 0-15 wait at __syncthreads, in diverge_kernel at ", "broken_kernels.cu:",
                          "threads 16-31 wait at __syncwarp, mask 0xffffffff, in diverge_kernel"});
}

TEST(Report, LanesThatLeft) {
  expect_report(leave_early,
                {"threads 0-19 wait at __syncwarp, mask 0xffffffff",
                 "the mask names lanes that have left: 20, 21", "threads 20-31 have left the kernel"});
}

TEST(Report, BarriersOnDifferentLines) {
  expect_report(wait_on_two_lines,
                {"threads wait at different __syncthreads", "threads 0-31 wait at __syncthreads",
                 "threads 32-63 wait at __syncthreads"});
}

TEST(Report, WarpBarriersOnDifferentLines) {
  expect_report(meet_on_two_lines, {"no thread can go on", "threads 0-15 wait at __syncwarp, mask 0xffffffff",
                                    "threads 16-31 wait at __syncwarp, mask 0xffffffff"});
}

TEST(Report, HelpersNameTheLineOfTheKernel) {
  expect_report(sum_on_two_lines, {"different __syncthreads", "in two_sums_kernel at "});
}

TEST(Report, LeavingBetweenBarriers) {
  expect_report(leave_between_barriers, {"thread (5,0,0): left the kernel after 1 __syncthreads"});
}

TEST(Report, MasksThatDoNotFit) {
  expect_report(name_others_only, {"thread (3,0,0): calls __shfl_sync with a mask that does not name it"});
  expect_report(name_missing_lanes,
                {"the mask at __shfl_sync names lanes past the last thread of the block"});
  expect_report(read_unnamed_lane, {"__shfl_sync at ", "reads lane 20, which its mask does not name"});
}

TEST(Report, SharedMemoryIsOneStruct) {
  expect_report(use_memory_as_two_types, {"shared memory is one struct"});
  expect_report(use_more_than_launched, {"uses 256 bytes of shared memory, the launch at ", "gave 252"});
}

TEST(Report, KernelCheck) {
  expect_report(fail_check_in_thread_7, {"kernel check failed: threadIdx.x + blockIdx.x != 7",
                                         "block (0,0,0), thread (7,0,0)", "broken_kernels.cu:"});
}

TEST(Report, Alignment) {
  const auto with_memory = [](void (*kernel)(StreamHandle, const float*)) {
    return complaint([&](cuda::Device& device, cuda::Stream& stream) {
      const DeviceArray<float> x(device, 64);
      kernel(stream.handle(), x.data());
    });
  };
  EXPECT_NE(with_memory(copy_to_odd_address).find("is not aligned to its size"), std::string::npos);
  EXPECT_NE(with_memory(load_unaligned_pack).find("kernel check failed"), std::string::npos);
}

TEST(Limits, AreCheckedAtTheLaunch) {
  cuda::Device device = emulate::open({.queued = true});
  cuda::Stream stream(device);
  const auto refused = [&](unsigned blocks, unsigned threads, std::size_t shared_bytes) -> std::string {
    try {
      launch_nothing(stream.handle(), blocks, threads, shared_bytes);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused(1, 1025, 0).find("launch in launch_nothing at "), std::string::npos);
  EXPECT_NE(refused(1, 1025, 0).find("block of 1025 x 1 x 1 threads"), std::string::npos);
  EXPECT_NE(refused(1, 0, 0), "");
  EXPECT_NE(refused(0, 32, 0).find("grid of 0 x 1 x 1"), std::string::npos);
  EXPECT_NE(refused(1, 32, 227 * 1024 + 1).find("bytes of shared memory"), std::string::npos);
  EXPECT_EQ(refused(3, 1024, 227 * 1024), "");
  stream.synchronize();
}

TEST(Errors, LeaveTheDeviceUsable) {
  cuda::Device device = emulate::open({});
  cuda::Stream stream(device);
  EXPECT_THROW(diverge(stream.handle()), Error);
  const DeviceArray<float> y(device, 64);
  keep_local_arrays(stream.handle(), y.data());
  EXPECT_EQ(y.read(stream)[1], 1024.0f + 523776.0f);
}

TEST(Errors, OfQueuedKernelsComeWithTheNextSynchronize) {
  cuda::Device device = emulate::open({.queued = true});
  cuda::Stream stream(device);
  {
    const cuda::Memory memory(device, 16);
    diverge(stream.handle());
  }  // the release runs the kernel first
  EXPECT_THROW(stream.synchronize(), Error);
  EXPECT_NO_THROW(stream.synchronize());
}

}  // namespace
}  // namespace strata::testing
