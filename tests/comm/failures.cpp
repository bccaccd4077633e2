// What happens to the others when one rank fails, and to memory that is taken back while messages are under
// way.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "support/comm_rank.h"

namespace strata::test {
namespace {

using comm::Pending;
using comm::World;

std::string sentence(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Failures, OneRankEndsTheOthersWithItsSentence) {
  std::vector<std::string> seen(4);
  const std::string thrown = failure_of(4, [&](World& world) {
    Rank r(world, {});
    const Tensor x = r.filled<float>({9}, [](auto) { return 1.0f; });
    if (r.rank() == 2) throw Error("loss is not a number at step 7");
    Pending sum = r.all->all_reduce(r.stream(), x);
    seen[r.rank()] = sentence([&] { sum.wait(r.stream()); });
    // Later ones as well, of any kind.
    EXPECT_EQ(sentence([&] { r.all->barrier(); }), seen[r.rank()]);
    Pending message = r.all->receive(r.stream(), x, r.ahead(), 0);
    EXPECT_EQ(sentence([&] { message.wait(r.stream()); }), seen[r.rank()]);
    throw Error("because another failed");
  });
  EXPECT_EQ(thrown, "rank 2: loss is not a number at step 7");
  for (const int rank : {0, 1, 3}) EXPECT_EQ(seen[rank], thrown);
}

TEST(Failures, BadInputStaysBadInput) {
  const auto rank_main = [](World& world) {
    if (world.rank() == 1) throw InputError("data.path is missing");
  };
  EXPECT_EQ(failure_of<InputError>(2, rank_main), "rank 1: data.path is missing");
  EXPECT_EQ(failure_of(1, [](World&) { throw 7; }), "rank 0: an exception that is none of the library's");
}

TEST(Failures, OutOfMemory) {
  EXPECT_EQ(failure_of(2,
                       [](World& world) {
                         if (world.rank() == 1) throw std::bad_alloc();
                       }),
            "rank 1: out of memory");
}

TEST(Failures, AbortWakesEverybody) {
  comm::run_threads(3, [](World& world) {
    Rank r(world, {});
    const Tensor x = r.empty<float>({1000000});
    Pending sum;
    if (r.rank() != 0) sum = r.all->all_reduce(r.stream(), x);
    if (r.rank() == 1) world.abort("stopped by hand");
    if (r.rank() == 0) return;
    EXPECT_EQ(sentence([&] { sum.wait(r.stream()); }), "stopped by hand");
  });
}

// Rank 0 waits for 1 and 2, then for 2 alone, which begins when that was seen.
TEST(Failures, OnlyThoseWhoAreMissingAreNamed) {
  std::atomic<bool> seen = false;
  comm::run_threads(3, [&](World& world) {
    Rank r(world, {});
    const Tensor x = r.filled<float>({9}, [](auto) { return 1.0f; });
    const auto until = [late = std::chrono::steady_clock::now() + std::chrono::seconds(60)](auto&& holds) {
      while (!holds() && std::chrono::steady_clock::now() < late) std::this_thread::yield();
    };
    if (r.rank() == 2) until([&] { return seen.load(); });
    Pending sum = r.all->all_reduce(r.stream(), x);
    if (r.rank() == 0) {
      const auto peers = [&] { return world.waiting().at(0).peers; };
      until([&] { return peers() == std::vector<int>{2}; });
      EXPECT_EQ(peers(), std::vector<int>{2});
      seen = true;
    }
    sum.wait(r.stream());
  });
}

// Queued: every wait throws as its job runs, and takes its memory back before the job that frees it.
TEST(Failures, QueuedOperationsEndBeforeTheirMemory) {
  const std::string thrown = failure_of(2, [](World& world) {
    Rank r(world, {.mode = device::StreamMode::Queued, .fill_nan = true});
    if (r.rank() == 1) throw Error("gone");
    for (int k = 0; k < 5; ++k) {
      const Tensor x = r.empty<float>({100000}), y = r.empty<float>({100000});
      Pending sent = r.all->send(r.stream(), x, 1, k), received = r.all->receive(r.stream(), y, 1, k);
      received.wait(r.stream());
      sent.wait(r.stream());
    }
    for (int wait = 0; wait < 10; ++wait)
      EXPECT_EQ(sentence([&] { r.stream().synchronize(); }), "rank 1: gone");
    r.stream().synchronize();
  });
  EXPECT_EQ(thrown, "rank 1: gone");
}

// Dropped on both sides while the other copies. The sanitizers look on.
TEST(Failures, DroppedInFlight) {
  comm::run_threads(2, [](World& world) {
    for (int k = 0; k < 100; ++k) {
      Rank r(world, {});
      const Tensor x = r.empty<float>({40000});
      if (r.rank() == 0)
        r.all->send(r.stream(), x, 1, 0);
      else
        r.all->receive(r.stream(), x, 0, 0);
    }
  });
}

TEST(Failures, MovedPendingTakesItsMemoryBackFirst) {
  comm::run_threads(2, [](World& world) {
    Rank r(world, {});
    const Tensor x = r.filled<float>({10}, [&](auto) { return float(r.rank()); }), y = r.empty<float>({10});
    Pending p = r.all->receive(r.stream(), x, r.ahead(), 1);
    p = r.all->receive(r.stream(), y, r.ahead(), 2);
    r.all->send(r.stream(), x, r.ahead(), 2).wait(r.stream());
    Pending q = std::move(p);
    EXPECT_FALSE(p);
    p.wait(r.stream());  // nothing to wait for
    q.wait(r.stream());
    EXPECT_FALSE(q);
    r.expect<float>(
        y, [&](auto) { return float(r.ahead()); }, "message");
    r.all->barrier();
  });
}

TEST(Failures, LengthsThatDiffer) {
  std::string sender, receiver;
  failure_of(2, [&](World& world) {
    Rank r(world, {});
    const Tensor x = r.empty<float>({r.rank() == 0 ? 10 : 12});
    Pending p =
        r.rank() == 0 ? r.all->send(r.stream(), x, 1, 3) : r.all->receive(r.stream(), x, 0, 3, "hidden");
    (r.rank() == 0 ? sender : receiver) = sentence([&] { p.wait(r.stream()); });
  });
  EXPECT_EQ(sender, "send to rank 1, tag 3, on rank 0 of 2 of all: 40 bytes sent, 48 expected");
  EXPECT_EQ(receiver,
            "receive (hidden) from rank 0, tag 3, on rank 1 of 2 of all: 48 bytes expected, 40 sent");
}

}  // namespace
}  // namespace strata::test
