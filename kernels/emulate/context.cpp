#include "kernels/emulate/context.h"

#include <cstdint>

#if defined(STRATA_EMULATE_UCONTEXT)

namespace strata::emulate {

void Context::prepare(std::byte* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&saved_);
  saved_.uc_stack.ss_sp = stack;
  saved_.uc_stack.ss_size = bytes;
  saved_.uc_link = nullptr;
  makecontext(&saved_, entry, 0);
}

void Context::switch_to(Context& to) { swapcontext(&saved_, &to.saved_); }

}  // namespace strata::emulate

#else

// The System V ABI asks a callee to keep rbx, rbp and r12 to r15; everything else the compiler has saved by
// itself.
asm(R"(
  .text
  .type strata_emulate_switch, @function
strata_emulate_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size strata_emulate_switch, . - strata_emulate_switch
)");
extern "C" void strata_emulate_switch(void** save, void* load);

namespace strata::emulate {

void Context::prepare(std::byte* stack, std::size_t bytes, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  const auto top = reinterpret_cast<std::uintptr_t>(stack + bytes) & ~std::uintptr_t{15};
  auto* word = reinterpret_cast<void**>(top);
  *--word = nullptr;  // the return address of entry: none, and the stack is aligned as after a call
  *--word = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--word = nullptr;
  stack_pointer_ = word;
}

void Context::switch_to(Context& to) { strata_emulate_switch(&stack_pointer_, to.stack_pointer_); }

}  // namespace strata::emulate

#endif
