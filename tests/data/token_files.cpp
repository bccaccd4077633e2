// Sound files of every format, read to the last token.
#include "data/token_file.h"

#include <nlohmann/json.hpp>

#include "data/files.h"

namespace strata::test {
namespace {

using data::ElementType;
using data::TokenFile;
using data::TokenFormat;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kAnyId = INT64_MAX;

Ids tokens(const TokenFile& file, std::int64_t begin, std::int64_t end) {
  Ids ids(std::size_t(end - begin));
  file.read(begin, ids, kAnyId);
  return ids;
}
Ids tokens(const TokenFile& file) { return tokens(file, 0, file.tokens()); }
Ids document(const TokenFile& file, std::int64_t d) {
  return tokens(file, file.document_begin(d), file.document_begin(d + 1));
}

nlohmann::json expected(const std::string& format) {
  return nlohmann::json::parse(read_file(kFormats + format + "/expected.json"));
}

TEST(TokenFiles, MegatronPairsHoldWhatTheyShould) {
  int files = 0;
  const auto good = expected("megatron").at("good");
  for (const auto& [name, what] : good.items()) {
    const std::string prefix = kFormats + "megatron/" + name;
    for (const std::string& path : {prefix, prefix + ".bin", prefix + ".idx"}) {
      const TokenFile file(path);
      EXPECT_EQ(file.path(), prefix + ".bin");
      EXPECT_EQ(file.format(), TokenFormat::Megatron);
      EXPECT_TRUE(file.knows_documents());
      const auto& sequences = what.at("sequences");
      const auto& begins = what.at("document_indices");
      ASSERT_EQ(file.documents(), std::int64_t(begins.size()) - 1) << path;
      Ids all;
      for (std::int64_t d = 0; d < file.documents(); ++d) {
        Ids ids;
        for (std::size_t s = begins[d]; s < begins[d + 1].get<std::size_t>(); ++s)
          for (const std::int64_t id : sequences[s]) ids.push_back(id);
        EXPECT_EQ(document(file, d), ids) << path << " document " << d;
        all.insert(all.end(), ids.begin(), ids.end());
      }
      EXPECT_EQ(tokens(file), all) << path;
      EXPECT_EQ(file.document_begin(file.documents()), file.tokens());
    }
    ++files;
  }
  EXPECT_EQ(files, 7);
}

TEST(TokenFiles, EveryMegatronType) {
  const Folder folder;
  const auto read = [&](std::uint8_t code, const std::string& bin, std::int64_t size) {
    folder.write("x.idx", Index{.code = code, .offsets = {0, 3 * size}}.bytes());
    folder.write("x.bin", bin);
    return tokens(TokenFile(folder / "x"));
  };
  const Ids ids{1, 2, 3, 4, 100};
  EXPECT_EQ(read(1, packed(std::vector<std::uint8_t>{1, 2, 3, 4, 100}), 1), ids);
  EXPECT_EQ(read(2, packed(std::vector<std::int8_t>{1, 2, 3, 4, 100}), 1), ids);
  EXPECT_EQ(read(3, packed(std::vector<std::int16_t>{1, 2, 3, 4, 100}), 2), ids);
  EXPECT_EQ(read(4, packed(std::vector<std::int32_t>{1, 2, 3, 4, 100}), 4), ids);
  EXPECT_EQ(read(5, packed(std::vector<std::int64_t>{1, 2, 3, 4, 100}), 8), ids);
  EXPECT_EQ(read(8, packed(std::vector<std::uint16_t>{1, 2, 3, 4, 65535}), 2), (Ids{1, 2, 3, 4, 65535}));
  EXPECT_EQ(read(1, packed(std::vector<std::uint8_t>{1, 2, 3, 4, 255}), 1), (Ids{1, 2, 3, 4, 255}));
}

TEST(TokenFiles, DocumentsOfSeveralSequencesAndOfNone) {
  const Folder folder;
  folder.write("x.bin", packed(std::vector<std::uint16_t>{5, 6, 7, 8, 9}));
  folder.write(
      "x.idx",
      Index{.lengths = {2, 0, 1, 2}, .offsets = {0, 4, 4, 6}, .documents = {0, 0, 3, 3, 4, 4}}.bytes());
  const TokenFile file(folder / "x");
  ASSERT_EQ(file.documents(), 5);
  EXPECT_EQ(document(file, 0), Ids{});
  EXPECT_EQ(document(file, 1), (Ids{5, 6, 7}));
  EXPECT_EQ(document(file, 2), Ids{});
  EXPECT_EQ(document(file, 3), (Ids{8, 9}));
  EXPECT_EQ(document(file, 4), Ids{});
}

TEST(TokenFiles, LlmcFilesHoldWhatTheyShould) {
  const auto what = expected("llmc");
  const TokenFile gpt2(kFormats + "llmc/gpt2_val.bin");
  EXPECT_EQ(gpt2.format(), TokenFormat::LlmC);
  EXPECT_EQ(gpt2.type(), ElementType::U16);
  ASSERT_EQ(gpt2.tokens(), what.at("gpt2_val").at("n"));
  EXPECT_EQ(tokens(gpt2, 0, 10), what.at("gpt2_val").at("first10").get<Ids>());
  EXPECT_EQ(tokens(gpt2, gpt2.tokens() - 5, gpt2.tokens()), what.at("gpt2_val").at("last5").get<Ids>());
  const TokenFile llama3(kFormats + "llmc/llama3_val.bin");
  EXPECT_EQ(llama3.type(), ElementType::U32);
  EXPECT_EQ(tokens(llama3), what.at("llama3_val").at("tokens").get<Ids>());
}

TEST(TokenFiles, NanoGptFilesAreToldByHavingNoOtherSign) {
  const TokenFile raw(kFormats + "nanogpt/gpt2_raw_uint16.bin");
  EXPECT_EQ(raw.format(), TokenFormat::NanoGpt);
  EXPECT_EQ(tokens(raw), tokens(TokenFile(kFormats + "llmc/gpt2_val.bin")));
  const auto meta = nlohmann::json::parse(read_file(kFormats + "nanogpt/meta.json"));
  const TokenFile shakespeare(kFormats + "nanogpt/shakespeare_char_train_head.bin");
  std::string text;
  for (const std::int64_t id : tokens(shakespeare)) text += meta.at("itos").at(id).get<std::string>();
  EXPECT_EQ(text.substr(0, 14), "First Citizen:");
  EXPECT_EQ(text.size(), 5000u);
}

TEST(TokenFiles, FilesWithoutIndexAreOneDocumentOrEndTheirsByAnId) {
  const std::string path = kFormats + "llmc/gpt2_val.bin";
  const TokenFile whole(path);
  EXPECT_EQ(whole.documents(), 1);
  EXPECT_FALSE(whole.knows_documents());
  const TokenFile by_id(path, 50256), megatron(kFormats + "megatron/gpt2_uint16");
  EXPECT_TRUE(by_id.knows_documents());
  ASSERT_EQ(by_id.documents(), 12);
  for (std::int64_t d = 0; d < 12; ++d) EXPECT_EQ(document(by_id, d), document(megatron, d)) << d;
  // An index knows better than an id.
  EXPECT_EQ(TokenFile(kFormats + "megatron/gpt2_uint16", 198).documents(), 12);
  // What follows the last end is a document too; an id that is not there leaves one.
  const Folder folder;
  const TokenFile tail(folder.write("t.bin", packed(std::vector<std::uint16_t>{1, 256, 256, 2})), 256);
  ASSERT_EQ(tail.documents(), 3);
  EXPECT_EQ(document(tail, 1), Ids{256});
  EXPECT_EQ(document(tail, 2), Ids{2});
  EXPECT_EQ(TokenFile(path, 50000).documents(), 1);
}

TEST(TokenFiles, ReadingAnyPartGivesTheSameIds) {
  for (const char* name : {"megatron/int32", "megatron/gpt2_uint16", "llmc/gpt2_val.bin"}) {
    const TokenFile file(kFormats + name);
    const Ids all = tokens(file);
    for (std::int64_t first : {0, 1, 7, 250})
      EXPECT_EQ(tokens(file, first, first + 60), Ids(all.begin() + first, all.begin() + first + 60)) << name;
    EXPECT_EQ(tokens(file, file.tokens(), file.tokens()), Ids{});
    EXPECT_THROW(tokens(file, 300, 311), Error) << "beyond the end";
  }
}

// A file of 12 GB, nearly all of it hole: offsets beyond 2^31 and 2^32 tokens and bytes.
TEST(TokenFiles, OffsetsBeyond32Bits) {
  const Folder folder;
  constexpr std::int64_t kLong = 2000000000;
  const std::string bin = folder.write("x.bin", "");
  const std::int64_t size = 2 * (3 * kLong + 2);
  std::filesystem::resize_file(bin, std::uintmax_t(size));
  std::fstream file(bin, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(size - 4);
  file << packed(std::vector<std::uint16_t>{41, 42});
  file.close();
  folder.write("x.idx", Index{.lengths = {kLong, kLong, kLong, 2},
                              .offsets = {0, 2 * kLong, 4 * kLong, 6 * kLong},
                              .documents = {0, 1, 3, 4}}
                            .bytes());
  const TokenFile big(folder / "x");
  EXPECT_EQ(big.tokens(), 3 * kLong + 2);
  EXPECT_EQ(big.document_begin(2), 3 * kLong);
  EXPECT_EQ(document(big, 2), (Ids{41, 42}));
  EXPECT_EQ(tokens(big, 3 * kLong - 1, 3 * kLong + 2), (Ids{0, 41, 42}));
}

TEST(TokenFiles, IdsOutsideTheVocabularyAreNamed) {
  const auto read = [](const std::string& name, std::int64_t first, std::int64_t count, std::int64_t vocab) {
    return refusal([&] {
      Ids ids(static_cast<std::size_t>(count));
      TokenFile(kFormats + name).read(first, ids, vocab);
    });
  };
  EXPECT_EQ(read("megatron/gpt2_uint16", 0, 15, 50257), "accepted");
  EXPECT_EQ(read("megatron/gpt2_uint16", 2, 13, 50256),
            kFormats + "megatron/gpt2_uint16.bin: token 14 is 50256; ids are 0 to 50255 (model.vocab_size)");
  EXPECT_EQ(read("megatron/int64", 0, 3, 50257),
            kFormats + "megatron/int64.bin: token 0 is 1099511627776; ids are 0 to 50256 (model.vocab_size)");
  EXPECT_EQ(read("llmc/llama3_val.bin", 3, 3, 100000),
            kFormats + "llmc/llama3_val.bin: token 5 is 128255; ids are 0 to 99999 (model.vocab_size)");
  const Folder folder;
  folder.write("x.idx", Index{.code = 3}.bytes());
  folder.write("x.bin", packed(std::vector<std::int16_t>{1, 2, 3, -7, 5}));
  EXPECT_EQ(refusal([&] {
              Ids ids(5);
              TokenFile(folder / "x").read(0, ids, 100);
            }),
            folder / "x.bin: token 3 is -7; ids are 0 to 99 (model.vocab_size)");
}

}  // namespace
}  // namespace strata::test
