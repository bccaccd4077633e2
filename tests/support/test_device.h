// The device tests run on. STRATA_TEST_STREAM=queued: jobs run late and in random order, memory is
// unreachable outside jobs and starts as NaN, so that a missing wait, an early host read or an unwritten
// value fails.
#pragma once
#include "device/device.h"

namespace strata::test {

device::DeviceOptions device_options();
// The same for ranks that exchange messages: those reach memory at any time, so it cannot be guarded.
device::DeviceOptions open_device_options();

}  // namespace strata::test
