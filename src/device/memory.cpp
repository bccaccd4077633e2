#include "device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

#include "device/out_of_memory.h"

// Under AddressSanitizer every tensor is its own allocation, so that the red zones lie around tensors.
#if defined(__SANITIZE_ADDRESS__)
#define STRATA_ALLOCATE_DIRECTLY 1
#else
#define STRATA_ALLOCATE_DIRECTLY 0
#endif

namespace strata::device {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kArenaBytes = std::int64_t(16) << 20;

void grow(MemoryUse& use, std::int64_t bytes) {
  use.now += bytes;
  use.peak = std::max(use.peak, use.now);
}

}  // namespace

Allocator::~Allocator() {
  for (const Arena& a : arenas_) munmap(a.base, a.bytes);
}

std::int64_t Allocator::rounded(std::int64_t bytes) {
  bytes = std::max<std::int64_t>(bytes, 1);
  const std::int64_t step =
      std::max<std::int64_t>(kAlignment, std::int64_t(std::bit_floor(std::uint64_t(bytes))) / 8);
  return (bytes + step - 1) / step * step;
}

void* Allocator::carve(std::int64_t bytes) {
  for (Arena& a : arenas_)
    if (a.bytes - a.used >= std::size_t(bytes)) return a.base + std::exchange(a.used, a.used + bytes);
  const std::size_t size = std::max(kArenaBytes, (bytes + 4095) / 4096 * 4096);
  void* base = mmap(nullptr, size, open_ ? PROT_READ | PROT_WRITE : PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw OutOfMemory(
        concat("out of memory: ", size, " more bytes cannot be had beyond the ", reserved_,
               " in use; a smaller model or training.micro_batch_size, or recompute, needs less"));
  reserved_ += size;
  if (!reserve_only_) madvise(base, size, MADV_HUGEPAGE);
  arenas_.push_back({static_cast<std::byte*>(base), size, std::size_t(bytes)});
  return base;
}

void* Allocator::allocate(std::int64_t bytes, Purpose purpose) {
  STRATA_CHECK(bytes >= 0, "allocation of ", bytes, " bytes");
  grow(use_[int(purpose)], bytes);
  grow(total_, bytes);
  if (STRATA_ALLOCATE_DIRECTLY && !reserve_only_) {
    void* p = nullptr;
    if (posix_memalign(&p, kAlignment, std::max<std::int64_t>(bytes, 1)) != 0) throw std::bad_alloc();
    return p;
  }
  const std::int64_t size = rounded(bytes);
  auto& list = free_[size];
  if (list.empty()) return carve(size);
  void* p = list.back();
  list.pop_back();
  return p;
}

void Allocator::release(void* p, std::int64_t bytes, Purpose purpose) {
  use_[int(purpose)].now -= bytes;
  total_.now -= bytes;
  if (STRATA_ALLOCATE_DIRECTLY && !reserve_only_) return std::free(p);
  free_[rounded(bytes)].push_back(p);
}

void Allocator::set_open(bool open) {
  open_ = open;
  for (const Arena& a : arenas_) mprotect(a.base, a.bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void Allocator::reset_peaks() {
  for (MemoryUse& u : use_) u.peak = u.now;
  total_.peak = total_.now;
}

}  // namespace strata::device
