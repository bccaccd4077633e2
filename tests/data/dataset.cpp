// What a run trains on: batches as a function of data, seed and sample, blends, limits, masks, identity.
#include "data/dataset.h"

#include <map>
#include <numeric>
#include <set>

#include "data/files.h"

namespace strata::test {
namespace {

using data::DataSection;
using data::TrainingData;
using data::TrainSource;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kLength = 8, kVocabulary = 1 << 16;

// Shifts every id, so that a token tells its file.
std::vector<std::vector<std::uint16_t>> shifted(std::vector<std::vector<std::uint16_t>> documents, int by) {
  for (auto& document : documents)
    for (std::uint16_t& id : document) id = std::uint16_t(id + by);
  return documents;
}

class Training : public ::testing::Test {
 protected:
  static constexpr int kShift = 10000;

  Training()
      : a(write_documents(folder, "a", numbered_documents(100, 6, 1))),
        b(write_documents(folder, "b", shifted(numbered_documents(100, 6, 2), kShift))),
        c(write_documents(folder, "c", shifted(numbered_documents(40, 6, 3), 2 * kShift))) {}

  static TrainingData open(const std::vector<TrainSource>& sources, std::uint64_t seed = 5,
                           std::int64_t samples = 1000) {
    return {DataSection{.train = sources}, kLength, seed, kVocabulary, samples};
  }
  // Which file each row is from.
  static std::vector<int> origins(const HostBatch& batch) {
    std::vector<int> all;
    for (std::int64_t r = 0; r < batch.rows; ++r) all.push_back(int(batch.input_ids[r * kLength] / kShift));
    return all;
  }

  const Folder folder;
  const std::string a, b, c;
};

void expect_equal(const HostBatch& x, const HostBatch& y) {
  EXPECT_EQ(x.rows, y.rows);
  EXPECT_EQ(x.input_ids, y.input_ids);
  EXPECT_EQ(x.labels, y.labels);
  EXPECT_EQ(x.documents, y.documents);
}

TEST_F(Training, LabelsAreTheNextTokens) {
  TrainingData data = open({{a}});
  const HostBatch batch = data.batch(0, 50);
  EXPECT_EQ(batch.rows, 50);
  EXPECT_EQ(batch.length, kLength);
  EXPECT_EQ(batch.input_ids.size(), std::size_t(50 * kLength));
  EXPECT_TRUE(batch.documents.empty());
  batch.validate(kVocabulary);
  for (std::int64_t r = 0; r < 50; ++r)
    for (std::int64_t t = 0; t + 1 < kLength; ++t)
      EXPECT_EQ(batch.labels[r * kLength + t], batch.input_ids[r * kLength + t + 1]);
}

TEST_F(Training, OrderIsAFunctionOfDataSeedAndSampleAlone) {
  const std::vector<TrainSource> sources{{a, 3}, {b, 1}, {c, 0.5}};
  TrainingData data = open(sources), again = open(sources), other_seed = open(sources, 6);
  const HostBatch all = data.batch(0, 600);
  expect_equal(again.batch(0, 600), all);
  EXPECT_NE(other_seed.batch(0, 600).input_ids, all.input_ids);
  // In pieces, backwards and across epochs.
  for (std::int64_t first = 590; first >= 0; first -= 10)
    expect_equal(again.batch(first, 10), all.slice(first, first + 10));
}

TEST_F(Training, ALongerRunKeepsTheOrder) {
  const std::vector<TrainSource> sources{{a, 0.9}, {b, 0.1}};
  TrainingData small = open(sources, 5, 10), large = open(sources, 5, 100000000);
  expect_equal(small.batch(0, 300), large.batch(0, 300));
}

TEST_F(Training, FarSamplesComeAtOnce) {
  TrainingData data = open({{a, 3}, {b}});
  const HostBatch far = data.batch(10000000, 8), near = data.batch(0, 8);
  TrainingData resumed = open({{a, 3}, {b}});
  expect_equal(resumed.batch(10000000, 8), far);
  expect_equal(resumed.batch(0, 8), near);
}

TEST_F(Training, EachEpochOfASourceIsAllItsWindowsOnce) {
  TrainingData data = open({{a}});
  const std::int64_t windows = data.plan().at(0).windows;
  std::set<Ids> epochs;
  for (std::int64_t e = 0; e < 3; ++e) {
    const HostBatch batch = data.batch(e * windows, windows);
    const std::set<std::int64_t> inputs(batch.input_ids.begin(), batch.input_ids.end());
    EXPECT_EQ(inputs.size(), batch.input_ids.size()) << "each input once";
    epochs.insert(batch.input_ids);
  }
  EXPECT_EQ(epochs.size(), 3u);
}

TEST_F(Training, BlendsFollowTheWeights) {
  for (const auto& [weight_a, weight_b] : {std::pair{0.001, 0.999}, {0.999, 0.001}, {1.0, 3.0}}) {
    TrainingData data = open({{a, weight_a}, {b, weight_b}}, 5, 4000);
    const std::vector<int> from = origins(data.batch(0, 4000));
    const auto count_b = double(std::count(from.begin(), from.end(), 1));
    EXPECT_NEAR(count_b, 4000 * weight_b / (weight_a + weight_b), 1);
    const auto plan = data.plan();
    EXPECT_EQ(double(plan[1].samples), count_b);
    EXPECT_EQ(plan[0].samples + plan[1].samples, 4000);
  }
}

// Ten windows in batches of 2 and of 4: the fourth batch of 4 is of two epochs, none is short.
TEST_F(Training, TheTailOfAnEpochIsNeitherLostNorRepeated) {
  std::vector<std::uint16_t> ids(10 * kLength + 1);
  std::iota(ids.begin(), ids.end(), std::uint16_t(0));
  const std::string ten = write_documents(folder, "ten", {ids});
  TrainingData data = open({{ten}});
  ASSERT_EQ(data.plan()[0].windows, 10);
  for (const std::int64_t rows : {2, 4}) {
    std::map<std::int64_t, int> seen;  // by the first token of a window
    for (std::int64_t sample = 0; sample < 20; sample += rows) {
      const HostBatch batch = data.batch(sample, rows);
      ASSERT_EQ(batch.rows, rows);
      for (std::int64_t r = 0; r < rows; ++r) ++seen[batch.input_ids[r * kLength]];
    }
    EXPECT_EQ(seen.size(), 10u);
    for (const auto& [first, times] : seen) EXPECT_EQ(times, 2) << first;
  }
}

TEST_F(Training, TinyWeightsReadWithinTheirFiles) {
  std::vector<std::uint16_t> ids(50 * kLength + 1, 1), others(50 * kLength + 1, kShift + 1);
  const TrainSource rare{write_documents(folder, "rare", {ids}), 0.001},
      often{write_documents(folder, "often", {others}), 0.999};
  TrainingData data = open({rare, often}, 5, 10000);
  EXPECT_EQ(data.plan()[0].samples, 10);
  EXPECT_EQ(data.plan()[0].epochs, 0.2);
  EXPECT_EQ(data.plan()[1].samples, 9990);
  EXPECT_EQ(data.plan()[1].epochs, 199.8);
  const std::vector<int> from = origins(data.batch(0, 10000));
  EXPECT_EQ(std::count(from.begin(), from.end(), 0), 10);
}

TEST_F(Training, ThreeSourcesKeepTheirOwnOrder) {
  TrainingData blend = open({{a, 5}, {b, 3}, {c, 2}});
  const HostBatch batch = blend.batch(0, 1000);
  const std::vector<int> from = origins(batch);
  EXPECT_EQ(std::count(from.begin(), from.end(), 0), 500);
  EXPECT_EQ(std::count(from.begin(), from.end(), 1), 300);
  EXPECT_EQ(std::count(from.begin(), from.end(), 2), 200);
  // The first source alone gives the same samples: weights do not change a source's own order.
  TrainingData alone = open({{a}});
  std::int64_t next = 0;
  for (std::int64_t r = 0; r < batch.rows; ++r)
    if (from[std::size_t(r)] == 0) {
      SCOPED_TRACE(next);
      expect_equal(batch.slice(r, r + 1), alone.batch(next++, 1));
    }
}

TEST_F(Training, TheSameFileTwiceIsReadInTwoOrders) {
  TrainingData data = open({{a}, {a}});
  std::set<Ids> rows;
  for (std::int64_t i = 0; i < 40; ++i) rows.insert(data.batch(i, 1).input_ids);
  EXPECT_GT(rows.size(), 30u);
}

TEST_F(Training, PlanCountsEpochs) {
  const TrainingData data = open({{a, 3}, {b, 1}}, 5, 2000);
  const auto plan = data.plan();
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].path, a + ".bin");
  EXPECT_EQ(plan[0].format, data::TokenFormat::Megatron);
  EXPECT_EQ(plan[0].documents, 100);
  EXPECT_EQ(plan[0].windows, (plan[0].tokens - 1) / kLength);
  EXPECT_EQ(plan[0].share, 0.75);
  EXPECT_EQ(plan[0].samples, 1500);
  EXPECT_EQ(plan[0].epochs, 1500.0 / double(plan[0].windows));
  EXPECT_EQ(data.tokens(), plan[0].tokens + plan[1].tokens);
}

TEST_F(Training, MoreEpochsThanAllowedAreRefused) {
  const std::int64_t windows = open({{a}}).plan()[0].windows;
  const auto limited = [&](double most, std::int64_t samples) {
    return refusal([&] { open({{b, 1, {}}, {a, 1, most}}, 5, 2 * samples); });
  };
  EXPECT_EQ(limited(1, windows), "accepted");
  EXPECT_EQ(limited(1, windows + 1),
            concat("data.train[1].max_epochs is 1, but ", a, ".bin has ", windows,
                   " samples of 8 tokens, and the run plans ", windows + 1,
                   " of them, 1.01 epochs: shorten the run, lower its weight, or raise max_epochs"));
  EXPECT_EQ(limited(2.5, 2 * windows + windows / 2), "accepted");
  EXPECT_NE(limited(2.5, 3 * windows), "accepted");
  EXPECT_NE(limited(0.5, windows), "accepted");
}

TEST_F(Training, DocumentMasks) {
  const DataSection section{.train = {{a}}, .reset_attention_mask = true, .eod_mask_loss = true};
  TrainingData masked(section, kLength, 5, kVocabulary, 100), plain = open({{a}});
  const data::TokenFile file(a);
  std::set<std::int64_t> begins;
  for (std::int64_t d = 0; d < file.documents(); ++d) begins.insert(file.document_begin(d));
  const HostBatch with = masked.batch(0, 80), without = plain.batch(0, 80);
  EXPECT_EQ(with.input_ids, without.input_ids);
  ASSERT_EQ(with.documents.size(), with.input_ids.size());
  std::int64_t boundaries = 0;
  for (std::int64_t i = 0; i < 80 * kLength; ++i) {
    const std::int64_t next = without.labels[i];  // ids are places in the file
    EXPECT_EQ(with.labels[i], begins.contains(next) ? kIgnoreLabel : next) << i;
    boundaries += begins.contains(next);
    if (i % kLength + 1 == kLength) continue;
    EXPECT_EQ(with.documents[i + 1] != with.documents[i], begins.contains(next)) << i;
  }
  EXPECT_GT(boundaries, 50);
  // Each on its own.
  TrainingData loss(DataSection{.train = {{a}}, .eod_mask_loss = true}, kLength, 5, kVocabulary, 100);
  EXPECT_EQ(loss.batch(0, 80).labels, with.labels);
  EXPECT_TRUE(loss.batch(0, 80).documents.empty());
  TrainingData attention(DataSection{.train = {{a}}, .reset_attention_mask = true}, kLength, 5, kVocabulary,
                         100);
  EXPECT_EQ(attention.batch(0, 80).labels, without.labels);
  EXPECT_EQ(attention.batch(0, 80).documents, with.documents);
}

// Two documents that end with the same id as a padding would have: no label is lost for it.
TEST_F(Training, EndsOfDocumentsAreTargetsByPlaceNotById) {
  const std::string path = write_documents(folder, "eod", {{1, 256, 2, 256}, {3, 256}, {4, 5, 6, 256}});
  const DataSection section{.train = {{path}}, .reset_attention_mask = true, .eod_mask_loss = true};
  TrainingData data(section, 9, 1, 257, 1);
  const HostBatch batch = data.batch(0, 1);
  EXPECT_EQ(std::count(batch.labels.begin(), batch.labels.end(), kIgnoreLabel), 2);
  EXPECT_EQ(std::count(batch.labels.begin(), batch.labels.end(), 256), 4);
}

TEST_F(Training, MasksNeedToKnowDocuments) {
  const std::string llmc = kFormats + "llmc/gpt2_val.bin";
  DataSection section{.train = {{a}, {llmc}}, .reset_attention_mask = true};
  const auto open = [&] { TrainingData(section, kLength, 5, kVocabulary, 100); };
  EXPECT_EQ(refusal(open),
            "data.reset_attention_mask needs to know where documents end, but data.train[1] (" + llmc +
                ") has no index, and data.tokenizer is unset");
  section.tokenizer = data::TokenizerKind::Byte;
  EXPECT_EQ(refusal(open), "accepted");
  section = {.train = {{llmc}}, .eod_mask_loss = true};
  EXPECT_EQ(refusal(open), "data.eod_mask_loss needs to know where documents end, but data.train[0] (" +
                               llmc + ") has no index, and data.tokenizer is unset");
}

TEST_F(Training, BadSourcesAreRefused) {
  EXPECT_EQ(refusal([&] { open({}); }),
            "data.train is required: a list of token files, as in [{\"path\": \"data/corpus\"}]");
  EXPECT_EQ(refusal([&] {
              open({{a}, {folder / "none"}});
            }),
            "data.train[1].path: cannot read " + folder / "none" + ": No such file or directory");
  const auto narrow = [&] { TrainingData(DataSection{.train = {{b}}}, kLength, 5, kShift + 5, 100); };
  EXPECT_EQ(refusal(narrow), b + ".bin: token 5 is 10005; ids are 0 to 10004 (model.vocab_size)");
}

// An id beyond the beginning that is looked at when a run starts: found when it is used.
TEST_F(Training, ALateBadIdIsNamedWhenItIsUsed) {
  std::vector<std::uint16_t> document(100001, 1);
  document[90000] = 300;
  const std::string path = write_documents(folder, "late", {document});
  TrainingData data(DataSection{.train = {{path}}}, 1000, 5, 257, 100);
  EXPECT_EQ(refusal([&] { data.batch(0, 100); }),
            path + ".bin: token 90000 is 300; ids are 0 to 256 (model.vocab_size)");
}

TEST_F(Training, FingerprintIsOfContents) {
  const auto print = [&](const std::vector<TrainSource>& sources, std::int64_t length = kLength) {
    return TrainingData(DataSection{.train = sources}, length, 1, kVocabulary, 10).fingerprint();
  };
  const std::string first = print({{a}, {b}});
  EXPECT_EQ(first.size(), 32u);
  // Neither the path nor the time of a file counts, nor the limit on epochs.
  const std::string copy = write_documents(folder, "elsewhere", numbered_documents(100, 6, 1));
  EXPECT_EQ(print({{copy}, {b, 1, 1000.0}}), first);
  EXPECT_EQ(print({{a, 2}, {b, 2}}), first) << "the ratio of weights is the same";
  EXPECT_NE(print({{a, 2}, {b, 1}}), first);
  EXPECT_NE(print({{b}, {a}}), first);
  EXPECT_NE(print({{a}}), first);
  EXPECT_NE(print({{a}, {b}}, kLength + 1), first);
  // One token, one boundary between documents, one token more.
  auto documents = numbered_documents(100, 6, 1);
  documents[50].back() ^= 1;
  EXPECT_NE(print({{write_documents(folder, "v", documents)}, {b}}), first);
  documents[50].back() ^= 1;
  EXPECT_EQ(print({{write_documents(folder, "v", documents)}, {b}}), first);
  documents[51].insert(documents[51].begin(), documents[50].back());
  documents[50].pop_back();
  EXPECT_NE(print({{write_documents(folder, "v", documents)}, {b}}), first);
  // The same ids in another type are other data: a file of i32 is not one of u16.
  EXPECT_NE(print({{kFormats + "megatron/int32"}}), print({{kFormats + "megatron/gpt2_uint16"}}));
}

TEST_F(Training, FilesOfAllFormatsTogether) {
  TrainingData data(DataSection{.train = {{kFormats + "megatron/int32"},
                                          {kFormats + "llmc/gpt2_val.bin"},
                                          {kFormats + "nanogpt/gpt2_raw_uint16.bin"}}},
                    16, 5, 50257, 100);
  data.batch(0, 100).validate(50257);
  EXPECT_EQ(data.tokens(), 3 * 310);
}

}  // namespace
}  // namespace strata::test
