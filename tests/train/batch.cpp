// Batches on the host: what multi-token prediction predicts, the counts that divide the losses, validation.
#include "model/batch.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using Ids = std::vector<std::int64_t>;
constexpr std::int64_t kNo = kIgnoreLabel;

// Two rows of four; the last label of row 0 and the first of row 1 are not counted.
HostBatch sample() {
  return {.rows = 2,
          .length = 4,
          .input_ids = {1, 2, 3, 4, 5, 6, 7, 8},
          .labels = {2, 3, 4, kNo, kNo, 7, 8, 9},
          .documents = {}};
}

std::string fault(const HostBatch& b, std::int64_t vocabulary) {
  try {
    b.validate(vocabulary);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Batch, NextTokensStayInTheirRowAndNeedBothLabels) {
  const model::NextTokens next = model::next_tokens(sample());
  EXPECT_EQ(next.ids, (Ids{2, 3, 4, 0, 6, 7, 8, 0}));
  EXPECT_EQ(next.labels, (Ids{3, 4, kNo, kNo, kNo, 8, 9, kNo}));
}

TEST(Batch, NextTokensDoNotPredictAcrossDocuments) {
  HostBatch b = sample();
  b.labels = {2, 3, 4, 5, 6, 7, 8, 9};
  b.documents = {0, 0, 1, 1, 0, 1, 2, 2};
  const model::NextTokens next = model::next_tokens(b);
  EXPECT_EQ(next.ids, (Ids{2, 3, 4, 0, 6, 7, 8, 0})) << "the token itself is the next of the row";
  EXPECT_EQ(next.labels, (Ids{3, kNo, 5, kNo, kNo, kNo, 9, kNo}));
}

TEST(Batch, CountsOnlyWhatIsLabelled) {
  const model::Counts c = model::count(sample());
  EXPECT_EQ(c.labels, 6);
  EXPECT_EQ(c.next_labels, 4);
  EXPECT_EQ(c.tokens, 8);
  EXPECT_EQ(c.sequences, 2);
  HostBatch none = sample();
  none.labels.assign(8, kNo);
  EXPECT_EQ(model::count(none).labels, 0);
  EXPECT_EQ(model::count(none).next_labels, 0);
  EXPECT_EQ(model::count(none).tokens, 8);
}

TEST(Batch, SlicesOfRows) {
  HostBatch b = sample();
  b.documents = {0, 0, 1, 1, 2, 2, 2, 2};
  const HostBatch last = b.slice(1, 2);
  EXPECT_EQ(last.rows, 1);
  EXPECT_EQ(last.length, 4);
  EXPECT_EQ(last.input_ids, (Ids{5, 6, 7, 8}));
  EXPECT_EQ(last.labels, (Ids{kNo, 7, 8, 9}));
  EXPECT_EQ(last.documents, (Ids{2, 2, 2, 2}));
  EXPECT_EQ(b.slice(1, 1).rows, 0);
  EXPECT_TRUE(sample().slice(0, 1).documents.empty());
  EXPECT_THROW(b.slice(1, 3), Error);
  EXPECT_THROW(b.slice(-1, 1), Error);
}

TEST(Batch, ValidationNamesRowAndPosition) {
  EXPECT_EQ(fault(sample(), 10), "");
  EXPECT_EQ(fault(sample(), 8),
            "labels[1][2] is 8; labels are 0 to 7 (model.vocab_size), or -100 for a token that is "
            "not counted");
  HostBatch b = sample();
  b.input_ids[2] = 10;
  EXPECT_EQ(fault(b, 10), "input_ids[0][2] is 10; token ids are 0 to 9 (model.vocab_size)");
  b = sample();
  b.input_ids[5] = -1;
  EXPECT_EQ(fault(b, 10), "input_ids[1][1] is -1; token ids are 0 to 9 (model.vocab_size)");
  b = sample();
  b.labels[0] = -99;
  EXPECT_EQ(fault(b, 10),
            "labels[0][0] is -99; labels are 0 to 9 (model.vocab_size), or -100 for a token that is not "
            "counted");
}

TEST(Batch, UploadRenumbersDocumentsAndLeavesTheRest) {
  device::Device device(device_options());
  HostBatch b = sample();
  const std::int64_t far = std::int64_t(1) << 40;
  b.documents = {far, far, -7, -7, far, 3, 3, 3};
  const model::MicroBatch m = model::upload(device, b, true);
  EXPECT_EQ(to_host_int(device, m.ids, "test"), b.input_ids);
  EXPECT_EQ(to_host_int(device, m.labels, "test"), b.labels);
  EXPECT_EQ(to_host_int(device, m.next_ids, "test"), model::next_tokens(b).ids);
  EXPECT_EQ(to_host_int(device, m.next_labels, "test"), model::next_tokens(b).labels);
  EXPECT_EQ(to_host_int(device, m.documents, "test"), (Ids{0, 0, 1, 1, 0, 2, 2, 2}));
  const model::MicroBatch plain = model::upload(device, sample(), false);
  EXPECT_FALSE(plain.next_ids.defined());
  EXPECT_FALSE(plain.documents.defined());
}

}  // namespace
}  // namespace strata::test
