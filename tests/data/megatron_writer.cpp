// Written pairs are those of Megatron's own writer, byte for byte; what fails leaves nothing.
#include "data/megatron_writer.h"

#include <sys/resource.h>

#include <csignal>

#include <nlohmann/json.hpp>

#include "data/files.h"
#include "data/token_file.h"

namespace strata::test {
namespace {

using data::MegatronWriter;
using data::TokenFile;
using Tokens = std::vector<std::int32_t>;

void write_all(MegatronWriter& writer, const std::vector<Tokens>& documents) {
  for (const Tokens& document : documents) {
    writer.append(document);
    writer.end_document();
  }
}

TEST(MegatronWriter, EqualsMegatronsOwnByteForByte) {
  const auto good = nlohmann::json::parse(read_file(kFormats + "megatron/expected.json")).at("good");
  const Folder folder;
  for (const char* name : {"gpt2_uint16", "int32", "int32_large_ids", "empty_sequence", "empty_dataset"}) {
    const auto& what = good.at(name);
    const std::int64_t vocabulary = what.at("dtype_code") == 8 ? 65499 : std::int64_t(1) << 31;
    MegatronWriter writer(folder / name, vocabulary, false);
    write_all(writer, what.at("sequences").get<std::vector<Tokens>>());
    writer.finish();
    for (const char* ending : {".bin", ".idx"})
      EXPECT_EQ(read_file(folder / name + ending), read_file(kFormats + "megatron/" + name + ending)) << name;
  }
}

TEST(MegatronWriter, TypeByVocabulary) {
  const Folder folder;
  EXPECT_EQ(MegatronWriter(folder / "a", 65499, false).type(), data::ElementType::U16);
  EXPECT_EQ(MegatronWriter(folder / "a", 65500, false).type(), data::ElementType::I32);
}

TEST(MegatronWriter, LongDocumentsBecomeSeveralSequences) {
  const Folder folder;
  MegatronWriter writer(folder / "x", 300, false, 4);
  writer.append(Tokens{1, 2, 3});
  writer.append(Tokens{4, 5, 6, 7, 8, 9});
  writer.end_document();
  writer.append(Tokens{10, 11, 12, 13});
  writer.end_document();
  writer.end_document();
  writer.finish();
  const TokenFile file(folder / "x");
  ASSERT_EQ(file.documents(), 3);
  EXPECT_EQ(file.document_begin(1), 9);
  EXPECT_EQ(file.document_begin(2), 13);
  EXPECT_EQ(file.tokens(), 13);
  EXPECT_EQ(
      read_file(folder / "x.idx"),
      (Index{.lengths = {4, 4, 1, 4, 0}, .offsets = {0, 8, 16, 18, 26}, .documents = {0, 3, 4, 5}}.bytes()));
}

TEST(MegatronWriter, NothingIsLeftUntilItIsFinished) {
  const Folder folder;
  {
    MegatronWriter writer(folder / "x", 300, false);
    write_all(writer, {{1, 2}});
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.bin.part"}) << "no index before the end";
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

TEST(MegatronWriter, OverwritesOnlyWhenTold) {
  const Folder folder;
  folder.write("x.idx", "old");
  EXPECT_EQ(refusal([&] { MegatronWriter(folder / "x", 300, false); }),
            folder / "x.idx exists already; choose another output, or replace it with --overwrite");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.idx"});
  EXPECT_EQ(read_file(folder / "x.idx"), "old");
  MegatronWriter writer(folder / "x", 300, true);
  write_all(writer, {{1, 2}});
  EXPECT_EQ(read_file(folder / "x.idx"), "old") << "the old file stays until the new one is whole";
  writer.finish();
  EXPECT_EQ(TokenFile(folder / "x").tokens(), 2);
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"x.bin", "x.idx"}));
}

TEST(MegatronWriter, PlacesThatCannotBeWritten) {
  const Folder folder;
  EXPECT_EQ(refusal([&] { MegatronWriter(folder / "no/x", 300, false); }),
            "cannot write " + folder / "no/x.bin.part: No such file or directory");
  EXPECT_EQ(refusal([&] { MegatronWriter(folder / "", 300, false); }),
            "the output \"" + folder / "" + "\" is a folder; a prefix for .bin and .idx is expected");
  EXPECT_EQ(refusal([&] { MegatronWriter("x.bin", 300, false); }),
            "the output \"x.bin\" is a prefix: leave .bin away");
}

// The file system refuses more than 3 MB, as a full disk does.
TEST(MegatronWriter, AFullDiskLeavesNothing) {
  const Folder folder;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{3000000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    MegatronWriter writer(folder / "x", 300, false);
    for (int i = 0; i < 100; ++i) write_all(writer, {Tokens(20000, 7)});
    writer.finish();
  } catch (const InputError&) {
    message = "taken for bad input";
  } catch (const Error& e) {
    message = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_EQ(message, "cannot write " + folder / "x.bin.part: File too large");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{});
}

}  // namespace
}  // namespace strata::test
