// What callers get wrong, and what needs no messages: dry devices.
#include <gtest/gtest.h>

#include "comm/mesh.h"
#include "support/comm_rank.h"

namespace strata::test {
namespace {

using comm::World;

// On rank 0 of two.
void expect_error(const std::string& part, const std::function<void(Rank&)>& f) {
  comm::run_threads(2, [&](World& world) {
    Rank r(world, {});
    if (r.rank() == 1) return;
    try {
      f(r);
      ADD_FAILURE() << "no error with: " << part;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  });
}

TEST(Contracts, Messages) {
  const std::string other = "which must be another of its 2 ranks (this is rank 0)";
  expect_error("send of all names rank 2, " + other,
               [](Rank& r) { r.all->send(r.stream(), r.empty<float>({1}), 2, 0); });
  expect_error("receive of all names rank 0, " + other,
               [](Rank& r) { r.all->receive(r.stream(), r.empty<float>({1}), 0, 0); });
  expect_error("send of all has tag 1048576, beyond 0 to 1048575",
               [](Rank& r) { r.all->send(r.stream(), r.empty<float>({1}), 1, 1 << 20); });
  expect_error("receive of all needs a tensor", [](Rank& r) { r.all->receive(r.stream(), {}, 1, 0); });
}

TEST(Contracts, Collectives) {
  expect_error("all_reduce of all needs a tensor", [](Rank& r) { r.all->all_reduce(r.stream(), {}); });
  expect_error("reduce_scatter of all over 2 ranks from float32[5] to float32[2]",
               [](Rank& r) { r.all->reduce_scatter(r.stream(), r.empty<float>({5}), r.empty<float>({2})); });
  expect_error("all_gather of all over 2 ranks from float32[2] to float64[4]",
               [](Rank& r) { r.all->all_gather(r.stream(), r.empty<float>({2}), r.empty<double>({4})); });
  const auto rows = [](Rank& r, std::vector<std::int64_t> send, Dims x, std::vector<std::int64_t> receive,
                       Dims y) {
    r.all->all_to_all(r.stream(), r.empty<float>(x), std::move(send), r.empty<float>(y), std::move(receive));
  };
  expect_error("sends rows of [3, 4] by 2 counts", [&](Rank& r) { rows(r, {1, 1}, {3, 4}, {1, 1}, {2, 4}); });
  expect_error("sends rows of [3, 4] by 2 counts", [&](Rank& r) {
    rows(r, {4, -1}, {3, 4}, {1, 1}, {2, 4});
  });
  expect_error("receives rows of [2, 4] by 3 counts", [&](Rank& r) {
    rows(r, {1, 2}, {3, 4}, {1, 1, 0}, {2, 4});
  });
  expect_error("rows of one type and shape", [&](Rank& r) { rows(r, {1, 2}, {3, 4}, {1, 1}, {2, 5}); });
  expect_error("rank 0 sends itself 1 rows and receives 2", [&](Rank& r) {
    rows(r, {1, 2}, {3, 4}, {2, 0}, {2, 4});
  });
}

TEST(Contracts, Groups) {
  expect_error("group odd has rank 2: each rank once, of a world of 2", [](Rank& r) {
    r.world.group("odd", {0, 2});
  });
  expect_error("group odd has rank 0: each rank once", [](Rank& r) { r.world.group("odd", {0, 0}); });
  expect_error("group odd is made on rank 0, which is not a member",
               [](Rank& r) { r.world.group("odd", {1}); });
}

TEST(Contracts, MeshShapes) {
  const auto sentence = [](comm::MeshShape shape) -> std::string {
    const auto world = comm::self_world();
    try {
      comm::Mesh mesh(*world, shape);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(sentence({1, 1, 1}), "accepted");
  EXPECT_EQ(sentence({2, 2, 1}), "pipeline 2 x data 2 needs 4 ranks, but the run has 1");
  EXPECT_EQ(sentence({1, 4, 3}),
            "data 4 is not a multiple of expert 3: expert groups lie inside the data group");
  EXPECT_EQ(sentence({0, 1, 1}), "parallel sizes are at least 1, got pipeline 0, data 1, expert 1");
}

// Alone, without anyone to answer: nothing runs, everything is counted.
TEST(Contracts, DryDevicesCountTraffic) {
  comm::run_threads(3, [&](World& world) {
    if (world.rank() != 1) return;
    Rank r(world, {.mode = device::StreamMode::Dry});
    const Tensor x = r.empty<float>({300000}), part = x.slice(0, 100000);
    r.all->all_reduce(r.stream(), x).wait(r.stream());
    r.all->reduce_scatter(r.stream(), x, part).wait(r.stream());
    r.all->all_to_all(r.stream(), part, {1000, 98999, 1}, r.empty<float>({99000}), {1, 98999, 0})
        .wait(r.stream());
    EXPECT_EQ(r.all->traffic().bytes, 1600000 + 800000 + 1001 * 4);
    const std::int64_t before = r.all->traffic().messages;
    comm::Pending sent = r.all->send(r.stream(), part, 2, 0);
    r.all->receive(r.stream(), part, 0, 0).wait(r.stream());
    sent.wait(r.stream());
    EXPECT_EQ(r.all->traffic().bytes, 1600000 + 800000 + 1001 * 4 + 400000);
    EXPECT_EQ(r.all->traffic().messages, before + 1);
    EXPECT_TRUE(world.waiting().empty());
  });
}

}  // namespace
}  // namespace strata::test
