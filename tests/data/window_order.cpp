// The order within one file: permutations, windows, documents.
#include "data/window_order.h"

#include <numeric>
#include <set>

#include "data/files.h"

namespace strata::test {
namespace {

using data::Permutation;
using data::Piece;
using data::TokenFile;
using data::WindowOrder;
using Order = std::vector<std::int64_t>;

Order permuted(std::int64_t n, std::uint64_t key) {
  const Permutation p(n, Philox(key));
  Order order;
  for (std::int64_t i = 0; i < n; ++i) order.push_back(p(i));
  return order;
}

TEST(Permutation, IsOneAtAnySize) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 15, 16, 17, 99, 100, 101, 1023, 1024, 1025, 65537}) {
    Order order = permuted(n, 5);
    std::sort(order.begin(), order.end());
    Order identity(order.size());
    std::iota(identity.begin(), identity.end(), 0);
    EXPECT_EQ(order, identity) << n;
  }
  const Permutation huge(std::int64_t(1) << 50, Philox(1));
  std::set<std::int64_t> values;
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(huge(i), std::int64_t(1) << 50);
    values.insert(huge(i));
  }
  EXPECT_EQ(values.size(), 1000u);
}

// Over many keys, each value is at each place about equally often: chi-square with 11 x 11 degrees.
TEST(Permutation, EveryValueComesToEveryPlace) {
  constexpr std::int64_t n = 12, kKeys = 6000;
  std::vector<double> hits(n * n);
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const Order order = permuted(n, key);
    for (std::int64_t i = 0; i < n; ++i) ++hits[std::size_t(i * n + order[i])];
  }
  constexpr double kExpected = double(kKeys) / n;
  double chi = 0;
  for (const double h : hits) chi += (h - kExpected) * (h - kExpected) / kExpected;
  EXPECT_LT(chi, 121 + 5 * std::sqrt(2 * 121.0));
}

TEST(Permutation, NeighboursDoNotStayNeighbours) {
  const Order order = permuted(10000, 3);
  int near = 0;
  for (std::size_t i = 1; i < order.size(); ++i) near += std::abs(order[i] - order[i - 1]) <= 10;
  EXPECT_LT(near, 60);  // 20 are expected
}

class Windows : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLength = 8;

  Windows() : file(write_documents(folder, "x", numbered_documents(200, 6))) {}

  // The tokens of a sample; a token's id is its place in the file.
  Order tokens(WindowOrder& order, std::int64_t i) const {
    Order ids;
    for (const Piece& piece : order.sample(i))
      for (std::int64_t k = 0; k < piece.count; ++k) {
        EXPECT_GE(piece.first + k, file.document_begin(piece.document));
        EXPECT_LT(piece.first + k, file.document_begin(piece.document + 1));
        ids.push_back(piece.first + k);
      }
    EXPECT_EQ(ids.size(), std::size_t(kLength + 1)) << i;
    return ids;
  }
  std::vector<Order> epoch(WindowOrder& order, std::int64_t e) const {
    std::vector<Order> all;
    for (std::int64_t i = 0; i < order.windows(); ++i) all.push_back(tokens(order, e * order.windows() + i));
    return all;
  }

  const Folder folder;
  const TokenFile file;
};

// Windows of an epoch put in line by their overlaps are one stream of whole documents, each there once.
TEST_F(Windows, AnEpochIsAllDocumentsOnceInAnyOrder) {
  WindowOrder order(file, kLength, 7, 0);
  EXPECT_EQ(order.windows(), (file.tokens() - 1) / kLength);
  for (std::int64_t e = 0; e < 3; ++e) {
    const auto windows = epoch(order, e);
    std::set<std::int64_t> inputs, last;
    for (const Order& w : windows) {
      for (std::int64_t k = 0; k < kLength; ++k) EXPECT_TRUE(inputs.insert(w[k]).second) << "an input twice";
      EXPECT_TRUE(last.insert(w[kLength]).second) << "a last target twice";
    }
    EXPECT_EQ(std::int64_t(inputs.size()), order.windows() * kLength);
    // All but one of the last tokens begin another window.
    std::int64_t starts = 0;
    for (const Order& w : windows) starts += last.contains(w[0]);
    EXPECT_EQ(starts, order.windows() - 1);
  }
}

TEST_F(Windows, WithinADocumentTokensFollowEachOther) {
  WindowOrder order(file, kLength, 7, 0);
  std::set<std::int64_t> begins;
  for (std::int64_t d = 0; d < file.documents(); ++d) begins.insert(file.document_begin(d));
  std::int64_t jumps = 0;
  for (const Order& w : epoch(order, 0))
    for (std::size_t k = 1; k < w.size(); ++k)
      if (w[k] != w[k - 1] + 1) {
        EXPECT_TRUE(begins.contains(w[k])) << "token " << w[k] << " after " << w[k - 1];
        ++jumps;
      }
  EXPECT_GT(jumps, 150) << "documents were not shuffled";
}

TEST_F(Windows, EpochsSeedsAndStreamsDiffer) {
  std::set<std::vector<Order>> orders;
  WindowOrder order(file, kLength, 7, 0), seed(file, kLength, 8, 0), stream(file, kLength, 7, 1);
  for (std::int64_t e = 0; e < 3; ++e) orders.insert(epoch(order, e));
  orders.insert(epoch(seed, 0));
  orders.insert(epoch(stream, 0));
  EXPECT_EQ(orders.size(), 5u);
}

TEST_F(Windows, AnySampleAtOnce) {
  WindowOrder in_line(file, kLength, 7, 0), jumping(file, kLength, 7, 0);
  std::vector<Order> all;
  const std::int64_t n = 3 * in_line.windows();
  for (std::int64_t i = 0; i < n; ++i) all.push_back(tokens(in_line, i));
  for (std::int64_t i = n - 1; i >= 0; i -= 7) EXPECT_EQ(tokens(jumping, i), all[std::size_t(i)]) << i;
  EXPECT_EQ(tokens(jumping, 10000000), tokens(in_line, 10000000));
}

TEST_F(Windows, WindowsOfOneLongDocumentAreShuffledToo) {
  const TokenFile one(write_documents(folder, "one", numbered_documents(1, 100000)));
  ASSERT_GT(one.tokens(), 1000);
  WindowOrder order(one, 10, 1, 0);
  // No order of documents tells epochs and seeds apart here: that of windows does.
  WindowOrder stream(one, 10, 1, 1), seed(one, 10, 2, 0);
  std::set<std::vector<std::int64_t>> orders;
  for (const auto& [from, epoch] : {std::pair{&order, 0}, {&order, 1}, {&stream, 0}, {&seed, 0}}) {
    std::vector<std::int64_t> first;
    for (std::int64_t i = 0; i < 20; ++i) first.push_back(from->sample(epoch * order.windows() + i)[0].first);
    orders.insert(first);
  }
  EXPECT_EQ(orders.size(), 4u);
  std::set<std::int64_t> starts;
  bool sorted = true;
  std::int64_t before = -1;
  for (std::int64_t i = 0; i < order.windows(); ++i) {
    const auto pieces = order.sample(i);
    ASSERT_EQ(pieces.size(), 1u);
    EXPECT_EQ(pieces[0].first % 10, 0);
    starts.insert(pieces[0].first);
    sorted = sorted && pieces[0].first > before;
    before = pieces[0].first;
  }
  EXPECT_EQ(std::int64_t(starts.size()), order.windows());
  EXPECT_FALSE(sorted);
}

TEST_F(Windows, EmptyDocumentsAreNothing) {
  const TokenFile holes(
      write_documents(folder, "holes", {{}, {0, 1, 2}, {}, {}, {3, 4, 5, 6}, {}, {7, 8}, {}}));
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    WindowOrder order(holes, 8, seed, 0);
    ASSERT_EQ(order.windows(), 1);
    std::set<std::int64_t> ids;
    for (const Piece& p : order.sample(0)) {
      EXPECT_GT(p.count, 0);
      for (std::int64_t k = 0; k < p.count; ++k) ids.insert(p.first + k);
    }
    EXPECT_EQ(ids.size(), 9u) << seed;
  }
}

TEST_F(Windows, AFileShorterThanOneWindowIsRefused) {
  const std::string prefix = write_documents(folder, "short", {{1, 2}, {3, 4}});
  const TokenFile file(prefix);
  EXPECT_EQ(refusal([&] { WindowOrder(file, 4, 0, 0); }),
            prefix + ".bin has 4 tokens; one window of training.seq_length 4 needs 5");
  EXPECT_EQ(refusal([&] { WindowOrder(file, 3, 0, 0); }), "accepted");
  const TokenFile empty(kFormats + "megatron/empty_dataset");
  EXPECT_EQ(
      refusal([&] { WindowOrder(empty, 1, 0, 0); }),
      kFormats + "megatron/empty_dataset.bin has 0 tokens; one window of training.seq_length 1 needs 2");
}

}  // namespace
}  // namespace strata::test
