#include "emulate/devices.h"

namespace strata::testing {

void on_every_device(const std::function<void(cuda::Device&)>& body) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  cuda::Device device(0);
  body(device);
}

}  // namespace strata::testing
