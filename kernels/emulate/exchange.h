// Warp operations as an exchange of values: each lane of a mask brings one, waits for the others, and reads
// any of them.
#pragma once
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "kernels/emulate/block.h"

namespace strata::emulate {

template <class T>
class Exchange {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= Meeting::kSlotBytes);

 public:
  Exchange(unsigned mask, const T& value, const char* operation, Site site)
      : mask_(mask),
        operation_(operation),
        site_(site),
        meeting_(thread().block->meet(mask, &value, sizeof value, operation, site)) {}
  ~Exchange() { thread().block->leave(meeting_); }
  Exchange(const Exchange&) = delete;

  T operator[](int lane) const {
    if (!(mask_ >> lane & 1))
      throw Error(concat(name_of(thread()), ": ", operation_, " at ", site_.file, ":", site_.line,
                         " reads lane ", lane, ", which its mask does not name"));
    return std::bit_cast<T>(raw(lane));
  }

 private:
  struct Raw {
    std::byte bytes[sizeof(T)];
  };
  Raw raw(int lane) const {
    Raw r;
    std::memcpy(&r, meeting_.slots[lane].bytes.data(), sizeof r);
    return r;
  }

  unsigned mask_;
  const char* operation_;
  Site site_;
  Meeting& meeting_;
};

}  // namespace strata::emulate
