// Collectives that do not belong together, told apart before they count.
#include <gtest/gtest.h>

#include "support/comm_rank.h"

namespace strata::test {
namespace {

using Call = std::function<void(Rank&)>;

// What each of three ranks throws when rank 1 makes another call than the others.
std::vector<std::string> differing(const Call& usual, const Call& other) {
  std::vector<std::string> seen(3);
  comm::run_threads(3, [&](comm::World& world) {
    world.check_collectives(true);
    Rank r(world, {});
    r.all->barrier("together");
    try {
      (r.rank() == 1 ? other : usual)(r);
    } catch (const Error& e) {
      seen[r.rank()] = e.what();
    }
  });
  return seen;
}

Call sum_of(std::int64_t n, const std::string& what) {
  return [=](Rank& r) {
    r.all->all_reduce(r.stream(), r.filled<float>({n}, [](auto) { return 1.0f; }), what).wait(r.stream());
  };
}

void expect_all(const std::vector<std::string>& seen, const std::string& sentence) {
  for (const std::string& s : seen) EXPECT_EQ(s, sentence);
}

TEST(CheckedCollectives, OrderKindAndSize) {
  expect_all(
      differing(sum_of(10, "losses"), sum_of(10, "gradient norm")),
      "collective 1 of all is all_reduce of 10 float32 (losses) on its rank 0 and all_reduce of 10 float32 "
      "(gradient norm) on its rank 1");
  // Sums whose parts do not fit, or would not even meet.
  for (const std::int64_t n : {9, 0, 100000})
    expect_all(differing(sum_of(10, "x"), sum_of(n, "x")),
               concat("collective 1 of all is all_reduce of 10 float32 (x) on its rank 0 and all_reduce of ",
                      n, " float32 (x) on its rank 1"));
  const Call gather = [](Rank& r) {
    r.all->all_gather(r.stream(), r.filled<double>({5}, [](auto) { return 1.0; }), r.empty<double>({15}), "x")
        .wait(r.stream());
  };
  expect_all(
      differing(sum_of(100000, "x"), gather),
      "collective 1 of all is all_reduce of 100000 float32 (x) on its rank 0 and all_gather of 5 float64 (x) "
      "on its rank 1");
}

// Two groups, begun in other orders on other ranks: right, and stays so.
TEST(CheckedCollectives, GroupsMayCross) {
  comm::run_threads(2, [](comm::World& world) {
    world.check_collectives(true);
    Rank r(world, {});
    const auto second = world.group("second", {0, 1});
    const Tensor x = r.filled<float>({10}, [](auto) { return 1.0f; }),
                 y = r.filled<float>({5000}, [](auto) { return 2.0f; });
    comm::Pending a, b;
    if (r.rank() == 0) a = r.all->all_reduce(r.stream(), x);
    b = second->all_reduce(r.stream(), y);
    if (r.rank() == 1) a = r.all->all_reduce(r.stream(), x);
    (r.rank() == 0 ? a : b).wait(r.stream());
    (r.rank() == 0 ? b : a).wait(r.stream());
    r.expect<float>(
        x, [](auto) { return 2.0f; }, "first");
    r.expect<float>(
        y, [](auto) { return 4.0f; }, "second");
    EXPECT_EQ(r.all->traffic().bytes, 40) << "what is compared is not counted";
  });
}

}  // namespace
}  // namespace strata::test
