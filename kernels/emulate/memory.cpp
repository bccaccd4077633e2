#include "kernels/emulate/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "kernels/emulate/sanitizer.h"

namespace strata::emulate {
namespace {

constexpr std::int64_t kPage = 4 << 10;
constexpr std::int64_t kGap = 64 << 10;  // only addresses: nothing is ever stored between allocations

}  // namespace

Memory::Memory(std::int64_t capacity, bool guard) : capacity_(capacity), guard_(guard) {
  void* mapped =
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw Error(concat("cannot reserve ", capacity, " bytes for an emulated device"));
  base_ = static_cast<std::byte*>(mapped);
  set_open(false);
}

Memory::~Memory() {
  unpoison(base_, used_);
  munmap(base_, capacity_);
}

std::int64_t Memory::footprint(std::int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage + kGap; }

void Memory::set_open(bool open) {
  open_ = open;
  if (guard_) mprotect(base_, capacity_, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void* Memory::allocate(std::int64_t bytes) {
  STRATA_CHECK(bytes >= 0, "allocation of ", bytes, " bytes");
  const std::int64_t size = footprint(bytes);
  auto& reusable = released_[size];
  std::int64_t offset = used_;
  if (!reusable.empty()) {
    offset = reusable.back();
    reusable.pop_back();
  } else {
    if (size > capacity_ - used_)
      throw Error(
          concat("out of device memory: ", bytes, " bytes wanted, ", used_, " of ", capacity_, " in use"));
    used_ += size;
  }
  live_[offset] = bytes;
  std::byte* p = base_ + offset;
  unpoison(p, bytes);
  poison(p + bytes, size - bytes);
  const bool was_open = open_;
  if (!was_open) set_open(true);
  std::memset(p, 0xFF, bytes);
  if (!was_open) set_open(false);
  return p;
}

void Memory::release(void* p) {
  const auto found = live_.find(static_cast<std::byte*>(p) - base_);
  STRATA_CHECK(found != live_.end(), "releases device memory that was not allocated");
  const auto [offset, bytes] = *found;
  poison(base_ + offset, bytes);
  released_[footprint(bytes)].push_back(offset);
  live_.erase(found);
}

bool Memory::holds(const void* p, std::int64_t bytes) const {
  const std::int64_t offset = static_cast<const std::byte*>(p) - base_;
  auto next = live_.upper_bound(offset);
  if (next == live_.begin()) return false;
  const auto [begin, size] = *--next;
  return offset + bytes <= begin + size;
}

}  // namespace strata::emulate
