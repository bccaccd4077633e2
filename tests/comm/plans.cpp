// Plans are pure: every message of every rank, made here without anyone to send it.
#include "comm/plan.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/error.h"

namespace strata::test {
namespace {

using comm::Place;
using comm::Plan;

std::byte nowhere{};

View view(DType type, Dims dims) { return {&nowhere, type, dims}; }

// Calls `f` with every message that the rounds have.
template <class F>
void for_messages(const Plan& plan, const F& f) {
  for (int i = 0; i < plan.rounds; ++i)
    for (const comm::Message& m : plan.round(i, &nowhere).messages) f(m);
}

// What a plan says that it sends is what it sends, to the byte and message.
void expect_counted(const Plan& plan, const std::string& what) {
  comm::Traffic built;
  for_messages(plan, [&](const comm::Message& m) {
    if (m.way != comm::Message::Way::Send) return;
    built.bytes += m.bytes;
    ++built.messages;
  });
  EXPECT_EQ(plan.traffic.bytes, built.bytes) << what;
  EXPECT_EQ(plan.traffic.messages, built.messages) << what;
}

// `f(place)` for the first, a middle and the last rank of groups up to those whose parts have a few elements.
template <class F>
void for_places(const F& f) {
  for (const int size : {1, 2, 3, 5, 16, 37, 1024})
    for (const int rank : std::set<int>{0, size / 2, size - 1}) f(Place{rank, size, 7});
}

TEST(Plans, SayWhatTheySend) {
  for_places([](Place place) {
    const std::int64_t size = place.size;
    for (const DType type : {DType::BFloat16, DType::Float32, DType::Float64})
      for (const std::int64_t n : {0L, 1L, size - 1, size, size + 1, 1025L, 4097L, 700003L}) {
        const std::string what =
            concat(n, " ", name_of(type), ", rank ", place.rank, " of ", place.size, ": ");
        expect_counted(comm::plan_all_reduce(view(type, {n}), place), what + "all_reduce");
        // The plan takes vectors whose parts differ, too.
        expect_counted(comm::plan_reduce_scatter(view(type, {n}), view(type, {n / size}), place),
                       what + "reduce_scatter");
        expect_counted(comm::plan_all_gather(view(type, {n}), view(type, {n * size}), place),
                       what + "all_gather");
        expect_counted(comm::plan_send(view(type, {n}), 1, 7), what + "send");
        expect_counted(comm::plan_receive(view(type, {n}), 1, 7), what + "receive");
      }
  });
}

TEST(Plans, SayWhatRowsTheySend) {
  for_places([](Place place) {
    for (const int kinds : {1, 4})  // 1: nobody has rows
      for (const std::int64_t columns : {0, 3}) {
        std::vector<std::int64_t> send, receive;
        for (int peer = 0; peer < place.size; ++peer) {
          send.push_back((place.rank * 3 + peer * 5) % kinds);
          receive.push_back((peer * 3 + place.rank * 5) % kinds);
        }
        const auto rows = [&](const std::vector<std::int64_t>& counts) {
          return view(DType::Float32, {std::accumulate(counts.begin(), counts.end(), 0L), columns});
        };
        expect_counted(comm::plan_all_to_all(rows(send), send, rows(receive), receive, place),
                       concat("rank ", place.rank, " of ", place.size));
      }
  });
}

// Every message has its counterpart, in the same order, at the other rank.
TEST(Plans, MessagesMeet) {
  for (const int ranks : {5, 37})  // 37: pieces of another length
    for (const std::int64_t n : {1, 3, 1025, 700003}) {
      std::vector<std::vector<std::pair<int, std::int64_t>>> sent(ranks * ranks), received(ranks * ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const Plan plan = comm::plan_all_reduce(view(DType::Float32, {n}), {rank, ranks, 7});
        for_messages(plan, [&](const comm::Message& m) {
          EXPECT_GT(m.bytes, 0);
          const bool out = m.way == comm::Message::Way::Send;
          (out ? sent[rank * ranks + m.peer] : received[m.peer * ranks + rank]).push_back({m.tag, m.bytes});
        });
      }
      EXPECT_EQ(sent, received);
    }
}

// A bucket of 160 MB in groups of any size: messages of about 8 KiB and more, staged in 64 MiB.
TEST(Plans, PiecesAreNeitherSmallNorMany) {
  constexpr std::int64_t kCount = 40'000'000;
  for (const int size : {2, 16, 17, 256, 512, 1024, 4096}) {
    const Plan plan = comm::plan_reduce_scatter(view(DType::Float32, {kCount}),
                                                view(DType::Float32, {kCount / size}), {1, size, 7});
    EXPECT_GE(plan.traffic.bytes / plan.traffic.messages, size <= 512 ? 32 << 10 : 4 << 10) << size;
    EXPECT_LE(plan.staging, (size <= 16 ? 2 << 20 : 64 << 20) + 144 * size) << size;
    EXPECT_LE(plan.traffic.messages, (size - 1) * (kCount * 4 / (1 << 20) + 1)) << size;
  }
}

}  // namespace
}  // namespace strata::test
