#include "kernels/emulate/async_copy.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace strata::emulate {
namespace {

bool aligned(const void* p, int bytes) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; }

}  // namespace

void async_copy(void* to_shared, const void* from_global, int bytes, Site site) {
  const auto fail = [&](const char* what) {
    throw Error(concat(name_of(thread()), ": cp.async of ", bytes, " bytes at ", site.file, ":", site.line,
                       " ", what));
  };
  if (!thread().block->in_shared(to_shared, bytes)) fail("writes outside shared memory");
  if (!aligned(to_shared, bytes) || !aligned(from_global, bytes)) fail("is not aligned to its size");
  AsyncCopies& copies = thread().copies;
  copies.pending.push_back({to_shared, from_global, bytes, copies.group});
}

void async_commit() { ++thread().copies.group; }

void async_wait(int newest_left) {
  AsyncCopies& copies = thread().copies;
  const int landed = copies.group - newest_left;
  for (const auto& copy : copies.pending)
    if (copy.group < landed) std::memcpy(copy.to, copy.from, copy.bytes);
  std::erase_if(copies.pending, [&](const auto& copy) { return copy.group < landed; });
}

}  // namespace strata::emulate
