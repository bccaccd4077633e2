// Byte-level text: windows, and an order that is a function of seed and sample number alone.
#include "data/text_corpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"

namespace strata::test {
namespace {

using data::TextCorpus;

class Corpus : public ::testing::Test {
 protected:
  Corpus()
      : path(testing::TempDir() + "strata_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
  }
  ~Corpus() override { std::filesystem::remove(path); }

  // Byte i is i: a window is known by its first token.
  void write(int bytes) const {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += char(i);
    std::ofstream(path, std::ios::binary) << text;
  }
  // First tokens of samples [first, first + rows).
  static std::vector<std::int64_t> starts(TextCorpus& corpus, std::int64_t first, std::int64_t rows) {
    const model::HostBatch b = corpus.batch(first, rows);
    std::vector<std::int64_t> all;
    for (std::int64_t r = 0; r < b.rows; ++r) all.push_back(b.input_ids[r * b.length]);
    return all;
  }

  const std::string path;
};

TEST_F(Corpus, WindowsOverlapByOneByteAndLabelsAreTheNextBytes) {
  write(14);
  const TextCorpus corpus(path, 4, 0);
  EXPECT_EQ(corpus.bytes(), 14);
  EXPECT_EQ(corpus.windows(), 3);
  const model::HostBatch b = corpus.in_order(0, 3);
  EXPECT_EQ(b.rows, 3);
  EXPECT_EQ(b.length, 4);
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(b.input_ids[i], i);
    EXPECT_EQ(b.labels[i], i + 1);
  }
  EXPECT_TRUE(b.documents.empty());
  EXPECT_EQ(corpus.in_order(2, 2).input_ids, (std::vector<std::int64_t>{8, 9, 10, 11, 0, 1, 2, 3}));
}

TEST_F(Corpus, BytesAbove127ArePositiveTokens) {
  write(256);
  const model::HostBatch b = TextCorpus(path, 255, 0).in_order(0, 1);
  EXPECT_EQ(b.labels.back(), 255);
  b.validate(data::kByteVocabulary);
}

TEST_F(Corpus, EveryEpochIsAFreshPermutation) {
  write(201);
  TextCorpus corpus(path, 2, 7);
  std::set<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    const auto order = starts(corpus, epoch * 100, 100);
    EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 100u) << epoch;
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end())) << epoch;
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST_F(Corpus, OrderIsAFunctionOfSeedAndSampleNumberAlone) {
  write(41);
  TextCorpus corpus(path, 2, 7), again(path, 2, 7), other(path, 2, 8);
  const auto all = starts(corpus, 0, 60);
  EXPECT_EQ(starts(again, 0, 60), all);
  EXPECT_NE(starts(other, 0, 60), all);
  // In any pieces, backwards, and across the ends of epochs.
  for (std::int64_t first = 57; first >= 0; first -= 3)
    EXPECT_EQ(starts(again, first, 3),
              std::vector<std::int64_t>(all.begin() + first, all.begin() + first + 3))
        << first;
  EXPECT_EQ(starts(again, 15, 10), std::vector<std::int64_t>(all.begin() + 15, all.begin() + 25));
}

TEST_F(Corpus, OneBatchMayHoldSeveralEpochs) {
  write(5);
  TextCorpus corpus(path, 2, 1);
  const auto all = starts(corpus, 0, 20);
  EXPECT_EQ(std::count(all.begin(), all.end(), 0), 10);
  EXPECT_EQ(std::count(all.begin(), all.end(), 2), 10);
}

TEST_F(Corpus, RefusesFilesItCannotUse) {
  const auto message = [](const std::string& file) -> std::string {
    try {
      TextCorpus(file, 4, 0);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message("/none/x"), "cannot read /none/x: No such file or directory");
  EXPECT_EQ(message("/tmp"), "cannot read /tmp: it is a directory");
  write(4);
  EXPECT_EQ(message(path), path + " has 4 bytes; one window of training.seq_length 4 needs 5");
  write(0);
  EXPECT_EQ(message(path), path + " has 0 bytes; one window of training.seq_length 4 needs 5");
  write(5);
  EXPECT_EQ(message(path), "accepted");
}

}  // namespace
}  // namespace strata::test
