// A stack of its own on which a function runs and may pause. Whoever starts or resumes it gets control back
// at the pause. All on one OS thread.
#pragma once
#include <cstddef>

#include "kernels/emulate/context.h"

namespace strata::emulate {

class Fiber {
 public:
  // `number` counts the fibers of an owner, so that their stacks do not all fall into the same cache lines.
  explicit Fiber(int number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs entry() from its beginning until it pauses or finishes. What ran here before is forgotten.
  void start(void (*entry)());
  void resume();

  // Both are called on the fiber. After finish() it can only be started anew.
  void pause() { leave(true); }
  [[noreturn]] void finish();

 private:
  static void begin();
  void enter();
  void leave(bool comes_back);

  std::byte* stack_;
  std::size_t usable_;
  void (*entry_)() = nullptr;
  Context own_, caller_;
  void* fake_stack_ = nullptr;  // for AddressSanitizer, as is where the caller's stack lies
  const void* caller_bottom_ = nullptr;
  std::size_t caller_bytes_ = 0;
};

}  // namespace strata::emulate
