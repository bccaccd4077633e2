#include "support/test_device.h"

#include <cstdlib>
#include <string_view>

namespace strata::test {

device::DeviceOptions device_options() {
  const char* stream = std::getenv("STRATA_TEST_STREAM");
  const bool queued = stream && std::string_view(stream) == "queued";
  return {.mode = queued ? device::StreamMode::Queued : device::StreamMode::Inline,
          .guard = queued,
          .fill_nan = true,
          .seed = 7};
}

device::DeviceOptions open_device_options() {
  device::DeviceOptions options = device_options();
  options.guard = false;
  return options;
}

}  // namespace strata::test
