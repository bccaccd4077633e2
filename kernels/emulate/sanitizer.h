// What AddressSanitizer must be told about stacks that are switched by hand and memory that is handed out by
// hand. Without it every call here is empty.
#pragma once
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define STRATA_EMULATE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRATA_EMULATE_ASAN 1
#endif
#endif

#if defined(STRATA_EMULATE_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace strata::emulate {

#if defined(STRATA_EMULATE_ASAN)
inline void poison(void* p, std::size_t bytes) { __asan_poison_memory_region(p, bytes); }
inline void unpoison(void* p, std::size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
// `fake` keeps the leaving side's shadow frames; null when that side never comes back.
inline void announce_switch(void** fake, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
// Called on arrival; tells where the other side's stack lies.
inline void complete_switch(void* fake, const void** bottom, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, bottom, bytes);
}
#else
inline void poison(void*, std::size_t) {}
inline void unpoison(void*, std::size_t) {}
inline void announce_switch(void**, const void*, std::size_t) {}
inline void complete_switch(void*, const void**, std::size_t*) {}
#endif

}  // namespace strata::emulate
