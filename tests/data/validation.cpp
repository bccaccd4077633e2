// Validation sets: every token but the first is a target once; bytes for bits per byte.
#include "data/validation.h"

#include "data/files.h"

namespace strata::test {
namespace {

using data::DataSection;
using data::ValidationData;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kNot = kIgnoreLabel;

class Validation : public ::testing::Test {
 protected:
  ValidationData open(const std::vector<std::vector<std::uint16_t>>& documents,
                      DataSection section = {}) const {
    section.validation["set"] = {write_documents(folder, "v", documents)};
    return {section, "set", 4, 257};
  }
  const Folder folder;
};

TEST_F(Validation, WindowsCoverTheSetInOrder) {
  const ValidationData set = open({{10, 11, 12, 13, 14, 15, 16}, {17, 18, 19}});
  EXPECT_EQ(set.name(), "set");
  EXPECT_EQ(set.tokens(), 10);
  ASSERT_EQ(set.windows(), 3);
  const HostBatch b = set.batch(0, 3);
  EXPECT_EQ(b.input_ids, (Ids{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 0}));
  EXPECT_EQ(b.labels, (Ids{11, 12, 13, 14, 15, 16, 17, 18, 19, kNot, kNot, kNot}));
  EXPECT_TRUE(b.documents.empty());
  EXPECT_EQ(set.batch(2, 1).labels, (Ids{19, kNot, kNot, kNot}));
  EXPECT_THROW(set.batch(2, 2), Error);
}

TEST_F(Validation, AnyLengthIsCoveredExactly) {
  for (int n = 2; n < 20; ++n) {
    std::vector<std::uint16_t> document;
    for (int i = 0; i < n; ++i) document.push_back(std::uint16_t(i));
    const ValidationData set = open({document});
    const HostBatch b = set.batch(0, set.windows());
    Ids targets;
    for (const std::int64_t label : b.labels)
      if (label != kNot) targets.push_back(label);
    EXPECT_EQ(targets, Ids(document.begin() + 1, document.end())) << n;
    EXPECT_NE(b.labels[b.labels.size() - 4], kNot) << "a last window without targets, " << n;
  }
}

TEST_F(Validation, DocumentMasks) {
  const ValidationData set =
      open({{1, 2, 3}, {}, {4, 5, 6, 7}, {8, 9}}, {.reset_attention_mask = true, .eod_mask_loss = true});
  ASSERT_EQ(set.windows(), 2);
  const HostBatch b = set.batch(0, 2);
  EXPECT_EQ(b.input_ids, (Ids{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(b.labels, (Ids{2, 3, kNot, 5, 6, 7, kNot, 9}));
  EXPECT_EQ(b.documents, (Ids{0, 0, 0, 2, 2, 2, 2, 3}));
  // What fills up the last window belongs to no document.
  const ValidationData more = open({{1, 2, 3}, {4, 5, 6}}, {.reset_attention_mask = true});
  EXPECT_EQ(more.batch(1, 1).documents, (Ids{1, 1, 2, 2}));
  EXPECT_EQ(more.batch(1, 1).labels, (Ids{6, kNot, kNot, kNot}));
}

TEST_F(Validation, BytesAreThoseOfCountedLabels) {
  const std::vector<std::vector<std::uint16_t>> documents{{97, 98, 99, 256}, {100, 256}, {101, 102, 256}};
  EXPECT_EQ(open(documents).bytes(), std::nullopt) << "what the tokens stand for is not known";
  const DataSection byte{.tokenizer = data::TokenizerKind::Byte};
  const ValidationData set = open(documents, byte);
  EXPECT_EQ(set.bytes(), 5) << "all bytes but the first; the ends of documents are none";
  EXPECT_EQ(set.bytes(set.batch(0, 1)), 3);
  DataSection masked = byte;
  masked.eod_mask_loss = true;
  EXPECT_EQ(open(documents, masked).bytes(), 3) << "first bytes of documents are no targets";
}

TEST_F(Validation, SetsByName) {
  const std::string a = write_documents(folder, "a", {{1, 2, 3}}), b = write_documents(folder, "b", {{4, 5}});
  const DataSection section{.validation = {{"web", {a}}, {"code", {b}}}};
  const auto sets = data::open_validation(section, 4, 257);
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].name(), "code");
  EXPECT_EQ(sets[0].path(), b + ".bin");
  EXPECT_EQ(sets[1].name(), "web");
  EXPECT_EQ(sets[1].batch(0, 1).input_ids, (Ids{1, 2, 3, 0}));
}

TEST_F(Validation, RefusesWhatItCannotUse) {
  EXPECT_EQ(refusal([&] { open({{1}}); }), folder / "v.bin has 1 tokens; a validation set needs at least 2");
  const ValidationData set = open({{1, 2, 3, 4, 5, 6, 300}});
  EXPECT_EQ(refusal([&] { set.batch(0, 1); }), "accepted");
  EXPECT_EQ(refusal([&] { set.batch(1, 1); }),
            folder / "v.bin: token 6 is 300; ids are 0 to 256 (model.vocab_size)");
  const DataSection masked{.validation = {{"x", {kFormats + "llmc/gpt2_val.bin"}}}, .eod_mask_loss = true};
  EXPECT_EQ(refusal([&] { data::open_validation(masked, 4, 50257); }),
            "data.eod_mask_loss needs to know where documents end, but data.validation.x (" + kFormats +
                "llmc/gpt2_val.bin) has no index, and data.tokenizer is unset");
}

}  // namespace
}  // namespace strata::test
