// The memory of an emulated device: one range of addresses that in guard mode can be touched only while it is
// open. Fresh memory is 0xFF bytes, NaN in every floating-point format. Under AddressSanitizer the space
// between allocations and released memory are poisoned.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace strata::emulate {

class Memory {
 public:
  Memory(std::int64_t capacity, bool guard);
  ~Memory();
  Memory(const Memory&) = delete;

  void* allocate(std::int64_t bytes);
  void release(void* p);
  void set_open(bool open);
  // Whether all of it lies in one allocation.
  bool holds(const void* p, std::int64_t bytes) const;

 private:
  static std::int64_t footprint(std::int64_t bytes);

  std::byte* base_;
  std::int64_t capacity_, used_ = 0;
  bool guard_, open_ = false;
  std::map<std::int64_t, std::int64_t> live_;                   // offset -> bytes
  std::map<std::int64_t, std::vector<std::int64_t>> released_;  // footprint -> offsets
};

}  // namespace strata::emulate
