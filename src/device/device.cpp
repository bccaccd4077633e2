#include "device/device.h"

#include <cstring>
#include <vector>

#include "base/error.h"

namespace strata::device {

Device::Device(DeviceOptions options)
    : options_(options),
      memory_(options.mode == StreamMode::Dry),
      queue_(options.mode, options.seed,
             [this](bool open) {
               if (options_.guard) memory_.set_open(open);
             }),
      compute_(queue_) {
  if (options_.guard) memory_.set_open(false);
}

Device::~Device() {
  try {
    compute_.synchronize();  // queued releases return their memory
  } catch (...) {            // a job that fails this late has nobody left to tell
  }
}

void Device::read_back(void* to, const void* from, std::int64_t bytes, const std::string& why) {
  ++read_backs_[why];
  compute_.synchronize();
  if (dry()) std::memset(to, 0, bytes);
  compute_.host_work([=] { std::memcpy(to, from, bytes); });
  compute_.synchronize();
}

void Device::upload(void* to, const void* from, std::int64_t bytes) {
  if (dry()) return;
  const auto* begin = static_cast<const std::byte*>(from);
  auto copy = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
  compute_.host_work([=] { std::memcpy(to, copy->data(), bytes); });
}

Storage::Storage(Device& device, std::int64_t bytes, Purpose purpose)
    : device_(device), bytes_(bytes), purpose_(purpose) {
  refill();
}

void Storage::drop() {
  if (!data_) return;
  // Queued jobs still use the memory. The allocator may hand it out again at once, since later jobs of this
  // stream come after; the sanitizer build frees it for good, so there the release itself has to queue.
  auto release = [&memory = device_.memory_, p = data_, bytes = bytes_, purpose = purpose_] {
    memory.release(p, bytes, purpose);
  };
#if defined(__SANITIZE_ADDRESS__)
  if (!device_.dry()) {
    device_.compute_.host_work(release);
  } else {
    release();
  }
#else
  release();
#endif
  data_ = nullptr;
}

void Storage::refill() {
  STRATA_CHECK(dropped(), "refilling memory that was not dropped");
  data_ = device_.memory_.allocate(bytes_, purpose_);
  if (device_.options_.fill_nan)
    device_.compute_.host_work([p = data_, bytes = bytes_] { std::memset(p, 0xFF, bytes); });
}

}  // namespace strata::device
