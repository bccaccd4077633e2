// What the watchdog says and ends, on ranks that are threads.
#include "train/watchdog.h"

#include <gtest/gtest.h>

#include "support/comm_rank.h"

namespace strata::test {
namespace {

using train::Watchdog;

struct Seen {
  std::vector<std::string> lines;  // sorted
  std::string thrown;
};

// Ranks of a mesh, each under a watchdog of 0.2 s.
Seen watched(comm::MeshShape shape, const std::function<void(const comm::Mesh&, Rank&)>& rank_main) {
  Seen seen;
  std::mutex mutex;
  try {
    comm::run_threads(shape.world(), [&](comm::World& world) {
      const comm::Mesh mesh(world, shape);
      const Watchdog watchdog(mesh, {.seconds = 0.2,
                                     .grace = 0.3,
                                     .say =
                                         [&](const std::string& line) {
                                           const std::lock_guard lock(mutex);
                                           seen.lines.push_back(line);
                                         },
                                     .last = {}});
      Rank r(world, {});
      rank_main(mesh, r);
    });
  } catch (const Error& e) {
    seen.thrown = e.what();
  }
  std::sort(seen.lines.begin(), seen.lines.end());
  return seen;
}

// Without the time waited.
std::string without_seconds(const std::string& line) {
  const std::size_t begin = line.find("waited "), end = line.find(" s for");
  return begin == std::string::npos ? line : line.substr(0, begin + 7) + "T" + line.substr(end);
}

void sleep_until_failed(const comm::World& world) {
  while (world.failure().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// Rank 0 waits for 1, which waits for 2: it is 2 that did not come.
TEST(Watchdog, NamesTheLastOfAChain) {
  const Seen seen = watched({3, 1, 1}, [](const comm::Mesh& mesh, Rank& r) {
    if (r.rank() == 2) return sleep_until_failed(r.world);
    const Tensor x = r.empty<float>({4});
    mesh.pipeline()
        .receive(r.stream(), x, r.rank() + 1, 7, concat("hidden of stage ", r.rank()))
        .wait(r.stream());
  });
  ASSERT_EQ(seen.lines.size(), 3u);
  EXPECT_EQ(
      without_seconds(seen.lines[0]),
      "rank 0 (pp 0/3 dp 0/1 ep 0/1) has waited T s for rank 1 (pp 1/3 dp 0/1 ep 0/1): receive of hidden of "
      "stage 0, [4] float32, in group pipeline");
  EXPECT_EQ(
      without_seconds(seen.lines[1]),
      "rank 1 (pp 1/3 dp 0/1 ep 0/1) has waited T s for rank 2 (pp 2/3 dp 0/1 ep 0/1): receive of hidden of "
      "stage 1, [4] float32, in group pipeline");
  EXPECT_EQ(seen.lines[2], "rank 2 (pp 2/3 dp 0/1 ep 0/1) waits for nobody: it computes, or hangs");
  EXPECT_EQ(
      seen.thrown,
      "rank 0: rank 2 (pp 2/3 dp 0/1 ep 0/1) did not come within 0.2 s (resilience.watchdog_seconds) to "
      "where others wait for it");
}

TEST(Watchdog, ARankThatLeft) {
  const Seen seen = watched({1, 2, 1}, [](const comm::Mesh& mesh, Rank& r) {
    const Tensor x = r.filled<float>({4, 3}, [](auto) { return 1.0f; });
    for (int number = 0; number < 2; ++number)
      mesh.data().all_reduce(r.stream(), x, "first").wait(r.stream());
    if (r.rank() == 0) return;
    mesh.data().all_reduce(r.stream(), x, "gradients").wait(r.stream());
  });
  ASSERT_EQ(seen.lines.size(), 1u);
  EXPECT_EQ(without_seconds(seen.lines[0]),
            "rank 1 (pp 0/1 dp 1/2 ep 0/1) has waited T s for rank 0 (pp 0/1 dp 0/2 ep 0/1): all_reduce 2 "
            "of gradients, [4, 3] float32, in group data");
  EXPECT_NE(seen.thrown.find("rank 0 (pp 0/1 dp 0/2 ep 0/1) did not come"), std::string::npos) << seen.thrown;
}

TEST(Watchdog, RanksThatWaitForEachOther) {
  const Seen seen = watched({2, 1, 1}, [](const comm::Mesh& mesh, Rank& r) {
    const Tensor x = r.empty<float>({4});
    mesh.pipeline().receive(r.stream(), x, 1 - r.rank(), 7).wait(r.stream());
  });
  EXPECT_EQ(seen.lines.size(), 2u);
  EXPECT_NE(seen.thrown.find("all ranks wait for each other"), std::string::npos) << seen.thrown;
}

// Before the first step ranks have longer, and the sentence says so.
TEST(Watchdog, WaitsLongerWhereItIsTold) {
  std::string thrown;
  const auto begin = std::chrono::steady_clock::now();
  try {
    comm::run_threads(2, [&](comm::World& world) {
      const comm::Mesh mesh(world, {2, 1, 1});
      const Watchdog watchdog(mesh, {.seconds = 0.1, .grace = 0.1, .say = [](auto&) {}, .last = {}}, 5);
      if (world.rank() == 1) return sleep_until_failed(world);
      mesh.all().barrier();
    });
  } catch (const Error& e) {
    thrown = e.what();
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  EXPECT_NE(thrown.find("did not come within 0.5 s (5 x resilience.watchdog_seconds) to"), std::string::npos)
      << thrown;
}

// Posted long ago but not stood still for: a rank that computes is not stuck.
TEST(Watchdog, LetsARankCompute) {
  const Seen seen = watched({2, 1, 1}, [](const comm::Mesh& mesh, Rank& r) {
    const Tensor x = r.filled<float>({4}, [](auto) { return 1.0f; });
    comm::Pending p = r.rank() == 0 ? mesh.pipeline().receive(r.stream(), x, 1, 7) : comm::Pending();
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    if (r.rank() == 1) p = mesh.pipeline().send(r.stream(), x, 0, 7);
    p.wait(r.stream());
  });
  EXPECT_EQ(seen.lines.size(), 0u);
  EXPECT_EQ(seen.thrown, "");
}

}  // namespace
}  // namespace strata::test
