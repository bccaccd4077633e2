// Saves one line of execution and continues another: a few pushes and pops on x86-64, ucontext elsewhere
// (or wherever STRATA_EMULATE_UCONTEXT is defined).
#pragma once
#include <cstddef>

#if !defined(__x86_64__) && !defined(STRATA_EMULATE_UCONTEXT)
#define STRATA_EMULATE_UCONTEXT 1
#endif
#if defined(STRATA_EMULATE_UCONTEXT)
#include <ucontext.h>
#endif

namespace strata::emulate {

class Context {
 public:
  // The first switch to this context calls entry() on the given stack. entry must not return.
  void prepare(std::byte* stack, std::size_t bytes, void (*entry)());
  // Leaves the running context in *this and goes on where `to` left off.
  void switch_to(Context& to);

 private:
#if defined(STRATA_EMULATE_UCONTEXT)
  ucontext_t saved_;
#else
  void* stack_pointer_ = nullptr;
#endif
};

}  // namespace strata::emulate
