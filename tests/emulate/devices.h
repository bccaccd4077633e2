// Runs a test body on each device of this build: every schedule of the emulator, or the GPU.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "kernels/cuda/runtime.h"

namespace strata::testing {

// Emulation: ascending, descending and shuffled orders, queued streams, guarded memory. Otherwise GPU 0; a
// machine without one skips the test.
void on_every_device(const std::function<void(cuda::Device&)>& body);

// The result of `body`, which must have the same bits on every device.
template <class T, class Body>
std::vector<T> same_on_every_device(Body&& body) {
  std::vector<T> first;
  on_every_device([&](cuda::Device& device) {
    const std::vector<T> result = body(device);
    if (first.empty()) first = result;
    ASSERT_EQ(result.size(), first.size());
    EXPECT_EQ(std::memcmp(result.data(), first.data(), result.size() * sizeof(T)), 0)
        << "on " << device.name();
  });
  return first;
}

// An array in device memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray(cuda::Device& device, std::int64_t count) : count_(count), memory_(device, count * sizeof(T)) {}
  DeviceArray(cuda::Device& device, cuda::Stream& stream, const std::vector<T>& host)
      : DeviceArray(device, std::int64_t(host.size())) {
    stream.upload(data(), host.data(), memory_.bytes());
    stream.synchronize();
  }
  T* data() const { return memory_.as<T>(); }
  std::vector<T> read(cuda::Stream& stream) const {
    std::vector<T> host(count_);
    stream.download(host.data(), data(), memory_.bytes());
    stream.synchronize();
    return host;
  }

 private:
  std::int64_t count_;
  cuda::Memory memory_;
};

}  // namespace strata::testing
