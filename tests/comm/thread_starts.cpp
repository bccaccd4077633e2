// Threads that the system does not start. Not under sanitizers, which start threads in its place, too.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cerrno>

#include "base/error.h"
#include "support/comm_rank.h"

namespace {
thread_local int thread_starts_left = -1;  // that this thread may still make; below 0: any number
}

// Called in place of the system's, which no limit makes fail for every user.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  if (thread_starts_left == 0) return EAGAIN;
  if (thread_starts_left > 0) --thread_starts_left;
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, body, argument);
}

namespace strata::test {
namespace {

using comm::World;

// Rank 2 cannot begin: the others, which wait for it, end with its sentence.
TEST(ThreadStarts, NoThreadForARank) {
  std::vector<std::string> seen(4);
  thread_starts_left = 2;
  const std::string thrown = failure_of(4, [&](World& world) {
    Rank r(world, {});
    try {
      r.all->barrier();
    } catch (const Error& e) {
      seen[r.rank()] = e.what();
    }
  });
  thread_starts_left = -1;
  EXPECT_EQ(thrown, "rank 2 of 4: no thread can be started: Resource temporarily unavailable");
  EXPECT_EQ(seen, (std::vector<std::string>{thrown, thrown, "", ""}));
}

// What could not begin is not waited for either, at once or queued.
TEST(ThreadStarts, NoThreadForMessages) {
  for (const auto mode : {device::StreamMode::Inline, device::StreamMode::Queued})
    EXPECT_EQ(failure_of(2,
                         [&](World& world) {
                           Rank r(world, {.mode = mode});
                           const Tensor x = r.filled<float>({10}, [](auto) { return 1.0f; });
                           if (r.rank() == 1) thread_starts_left = 0;
                           r.all->all_reduce(r.stream(), x).wait(r.stream());
                           r.stream().synchronize();
                         }),
              "rank 1: no thread can be started: Resource temporarily unavailable");
}

}  // namespace
}  // namespace strata::test
