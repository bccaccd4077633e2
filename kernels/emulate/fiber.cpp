#include "kernels/emulate/fiber.h"

#include <sys/mman.h>

#include <new>

#include "kernels/emulate/sanitizer.h"

namespace strata::emulate {
namespace {

// Address space only; pages come when they are touched. Instrumented frames are several times larger.
#if defined(STRATA_EMULATE_ASAN)
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 64 << 10;
#endif
constexpr std::size_t kGuardBytes = 4 << 10;
// Stacks begin up to kColors * kColorBytes below the top: they lie at equal distances, and caches map by
// address.
constexpr std::size_t kColors = 61, kColorBytes = 192;

thread_local Fiber* t_starting = nullptr;

}  // namespace

Fiber::Fiber(int number) : usable_(kStackBytes - std::size_t(number) % kColors * kColorBytes) {
  void* mapped = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mprotect(mapped, kGuardBytes, PROT_NONE);  // stacks grow down: an overflow faults
  stack_ = static_cast<std::byte*>(mapped) + kGuardBytes;
}

Fiber::~Fiber() {
  unpoison(stack_, kStackBytes);
  munmap(stack_ - kGuardBytes, kGuardBytes + kStackBytes);
}

void Fiber::start(void (*entry)()) {
  unpoison(stack_, kStackBytes);  // frames that were left for good leave their red zones behind
  entry_ = entry;
  fake_stack_ = nullptr;
  t_starting = this;
  own_.prepare(stack_, usable_, &Fiber::begin);
  enter();
}

void Fiber::resume() { enter(); }

void Fiber::finish() {
  leave(false);
  __builtin_unreachable();
}

void Fiber::begin() {
  Fiber& self = *t_starting;
  complete_switch(nullptr, &self.caller_bottom_, &self.caller_bytes_);
  self.entry_();
  self.finish();
}

void Fiber::enter() {
  void* fake = nullptr;
  announce_switch(&fake, stack_, kStackBytes);
  caller_.switch_to(own_);
  complete_switch(fake, nullptr, nullptr);
}

void Fiber::leave(bool comes_back) {
  announce_switch(comes_back ? &fake_stack_ : nullptr, caller_bottom_, caller_bytes_);
  own_.switch_to(caller_);
  complete_switch(fake_stack_, &caller_bottom_, &caller_bytes_);
}

}  // namespace strata::emulate
