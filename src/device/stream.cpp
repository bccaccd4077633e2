#include "device/stream.h"

#include <cstdlib>
#include <new>

namespace strata::device {

void CpuStream::Free::operator()(void* p) const { std::free(p); }

void* CpuStream::scratch_bytes(std::int64_t bytes) {
  if (bytes > capacity_) {
    const std::int64_t rounded = (bytes + 4095) / 4096 * 4096;
    scratch_.reset();
    scratch_.reset(std::aligned_alloc(64, rounded));
    if (!scratch_) throw std::bad_alloc();
    capacity_ = rounded;
  }
  return scratch_.get();
}

}  // namespace strata::device
