// Damaged files and files of other kinds: each is refused, and the message names file and fault.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "data/files.h"
#include "data/token_file.h"

namespace strata::test {
namespace {

using data::TokenFile;

std::string refused(const std::string& path) {
  return refusal([&] { TokenFile{path}; });
}

TEST(BadTokenFiles, MegatronFixtures) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"bad_magic", "it does not begin with MMIDIDX"},
      {"bad_version", "its version is 2, known is 1"},
      {"bad_dtype_code",
       "its type code is 9, allowed are 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64), 8 (u16)"},
      {"bad_dtype_code0",
       "its type code is 0, allowed are 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64), 8 (u16)"},
      {"bad_truncated_header", "it ends within its header, after 20 of 34 bytes"},
      {"bad_truncated_index", "it says 13 entries of documents, but has only 277 bytes"},
      {"bad_empty_file", "it is empty"},
      {"bad_bin_truncated", "sequence 11 ends at byte 620 of BIN, which has only 617"},
      {"bad_negative_pointer", "sequence 0 begins at byte -2 of BIN, but the sequences before it end at 0"},
      {"bad_doc_index_last", "entry 12 of its documents is 13; allowed are 11 to 12"},
  };
  const auto expected = nlohmann::json::parse(read_file(kFormats + "megatron/expected.json")).at("bad");
  EXPECT_EQ(expected.size(), faults.size());
  for (const auto& [name, fault] : faults) {
    EXPECT_TRUE(expected.contains(name));
    const std::string prefix = kFormats + "megatron/" + name;
    std::string message = prefix + ".idx is not a sound Megatron index: " + fault;
    if (const std::size_t at = message.find("BIN"); at != std::string::npos)
      message.replace(at, 3, prefix + ".bin");
    for (const std::string& path : {prefix, prefix + ".bin", prefix + ".idx"})
      EXPECT_EQ(refused(path), message);
  }
}

TEST(BadTokenFiles, LlmcAndNanoGptFixtures) {
  const auto llmc = [](const std::string& name) { return kFormats + "llmc/" + name + ".bin"; };
  const std::string sound = " is not a sound llm.c token file: ";
  EXPECT_EQ(refused(llmc("bad_magic")), llmc("bad_magic") +
                                            " is not a token file: it has a header, but not one of llm.c "
                                            "(its first bytes are 20240519 as an i32)");
  EXPECT_EQ(refused(llmc("bad_version")),
            llmc("bad_version") + sound + "its version is 2, known with this magic is 1");
  EXPECT_EQ(refused(llmc("bad_zero_tokens")), llmc("bad_zero_tokens") + sound + "its header says 0 tokens");
  EXPECT_EQ(
      refused(llmc("bad_truncated")),
      llmc("bad_truncated") + sound + "its header says 310 tokens, that is 1644 bytes, but it has 1643");
  EXPECT_EQ(refused(llmc("bad_short_header")),
            llmc("bad_short_header") + sound + "it ends within its header, after 12 of 1024 bytes");
  EXPECT_EQ(
      refused(llmc("hellaswag_val_20")),
      llmc("hellaswag_val_20") + " is an llm.c evaluation file (multiple choice), not a stream of tokens");
  const std::string odd = kFormats + "nanogpt/bad_odd_size.bin";
  EXPECT_EQ(refused(odd), odd +
                              " is not a token file: it has no known header, and 619 bytes are not a whole "
                              "number of u16 tokens");
}

struct Damage {
  Index index;
  std::string fault;
};

// Of a sound index of two sequences, 3 and 2 tokens of u16.
const std::vector<Damage>& damages() {
  constexpr std::uint64_t kHuge = UINT64_MAX;
  constexpr std::int64_t kFar = INT64_MAX;
  static const std::vector<Damage> all = {
      {{.magic = std::string("TNTIDX\0\0\0", 9)}, "it does not begin with MMIDIDX"},
      {{.magic = std::string("MMIDIDX\0\1", 9)}, "it does not begin with MMIDIDX"},
      {{.version = 0}, "its version is 0, known is 1"},
      {{.version = 1ull << 56}, "its version is 72057594037927936, known is 1"},
      {{.code = 6}, "its type code 6 is a floating-point type; tokens are integers"},
      {{.code = 7}, "its type code 7 is a floating-point type; tokens are integers"},
      {{.code = 255}, "its type code is 255, allowed are 1 (u8), 2 (i8), 3 (i16), 4 (i32), 5 (i64), 8 (u16)"},
      {{.code = 4}, "sequence 0 ends at byte 12 of BIN, which has only 10"},
      {{.code = 1}, "sequence 1 begins at byte 6 of BIN, but the sequences before it end at 3"},
      {{.sequence_count = kHuge}, "it says 18446744073709551615 sequences, but has only 82 bytes"},
      {{.sequence_count = kHuge / 12}, "it says 1537228672809129301 sequences, but has only 82 bytes"},
      {{.sequence_count = 1ull << 63}, "it says 9223372036854775808 sequences, but has only 82 bytes"},
      {{.sequence_count = 3}, "it says 3 entries of documents, but has only 82 bytes"},
      {{.sequence_count = 1},
       "it has 12 bytes after its last entry; none, or one mode for each of 1 sequences, are expected"},
      {{.document_count = kHuge}, "it says 18446744073709551615 entries of documents, but has only 82 bytes"},
      {{.document_count = 1ull << 61},
       "it says 2305843009213693952 entries of documents, but has only 82 bytes"},
      {{.document_count = 0}, "it has no entries of documents; the first is 0"},
      {{.document_count = 2},
       "it has 8 bytes after its last entry; none, or one mode for each of 2 sequences, are expected"},
      {{.lengths = {-1, 2}}, "sequence 0 has the length -1"},
      {{.lengths = {3, INT32_MIN}}, "sequence 1 has the length -2147483648"},
      {{.lengths = {2, 2}}, "sequence 1 begins at byte 6 of BIN, but the sequences before it end at 4"},
      {{.lengths = {3, 3}}, "sequence 1 ends at byte 12 of BIN, which has only 10"},
      {{.lengths = {3, INT32_MAX}}, "sequence 1 ends at byte 4294967300 of BIN, which has only 10"},
      {{.lengths = {3, 1}}, "BIN has 10 bytes, but the sequences end at byte 8"},
      {{.offsets = {2, 6}}, "sequence 0 begins at byte 2 of BIN, but the sequences before it end at 0"},
      {{.offsets = {0, 5}}, "sequence 1 begins at byte 5 of BIN, but the sequences before it end at 6"},
      {{.offsets = {0, kFar}},
       "sequence 1 begins at byte 9223372036854775807 of BIN, but the sequences before it end at 6"},
      {{.offsets = {INT64_MIN, 6}},
       "sequence 0 begins at byte -9223372036854775808 of BIN, but the sequences before it end at 0"},
      {{.documents = {1, 1, 2}}, "its first document begins at sequence 1, not 0"},
      {{.documents = {0, 3, 2}}, "entry 1 of its documents is 3; allowed are 0 to 2"},
      {{.documents = {0, -1, 2}}, "entry 1 of its documents is -1; allowed are 0 to 2"},
      {{.documents = {0, 2, 1}}, "entry 2 of its documents is 1; allowed are 2 to 2"},
      {{.documents = {0, 1, 1}}, "its documents end at sequence 1, but it has 2"},
      {{.documents = {0, kFar, 2}}, "entry 1 of its documents is 9223372036854775807; allowed are 0 to 2"},
      {{.tail = "x"},
       "it has 1 bytes after its last entry; none, or one mode for each of 2 sequences, are expected"},
      {{.tail = "xyz"},
       "it has 3 bytes after its last entry; none, or one mode for each of 2 sequences, are expected"},
  };
  return all;
}

TEST(BadTokenFiles, DamagedMegatronIndices) {
  const Folder folder;
  folder.write("x.bin", packed(std::vector<std::uint16_t>{1, 2, 3, 4, 5}));
  folder.write("x.idx", Index{}.bytes());
  ASSERT_EQ(refused(folder / "x"), "accepted");
  for (const auto& [index, fault] : damages()) {
    folder.write("x.idx", index.bytes());
    std::string message = folder / "x.idx is not a sound Megatron index: " + fault;
    if (const std::size_t at = message.find("BIN"); at != std::string::npos)
      message.replace(at, 3, folder / "x.bin");
    EXPECT_EQ(refused(folder / "x"), message);
  }
}

TEST(BadTokenFiles, AnIndexCutAnywhere) {
  const Folder folder;
  folder.write("x.bin", packed(std::vector<std::uint16_t>{1, 2, 3, 4, 5}));
  const std::string whole = Index{}.bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    folder.write("x.idx", whole.substr(0, size));
    EXPECT_NE(refused(folder / "x").find("x.idx is not a sound Megatron index: "), std::string::npos) << size;
  }
}

TEST(BadTokenFiles, PairsThatAreNone) {
  const Folder folder;
  const std::string none = folder / "none";
  EXPECT_EQ(refused(none), "cannot read " + none + ": No such file or directory");
  EXPECT_EQ(refused(none + ".idx"), "cannot read " + none + ".idx: No such file or directory");
  EXPECT_EQ(refused(none + ".bin"), "cannot read " + none + ".bin: No such file or directory");
  EXPECT_EQ(refused(folder / "."), "cannot read " + folder / "." + ": it is a directory");
  folder.write("x.idx", Index{}.bytes());
  for (const char* path : {"x", "x.idx"})
    EXPECT_EQ(refused(folder / path), folder / "x.idx has no " + folder / "x.bin beside it");
  folder.write("moved", Index{}.bytes());
  EXPECT_EQ(refused(folder / "moved"),
            folder /
                "moved is not a token file: it is a Megatron index; it is named by the prefix that it "
                "shares with its .bin");
  folder.write("lost.bin", packed(std::vector<std::uint16_t>{1, 2, 3, 4}));
  EXPECT_EQ(refused(folder / "lost"), folder / "lost.bin has no " + folder / "lost.idx beside it; ids " +
                                          "without index are named " + folder / "lost.bin");
  EXPECT_EQ(refused(folder / "lost.bin"), "accepted");
  std::filesystem::create_directory(folder / "x.bin");
  EXPECT_EQ(refused(folder / "x"), "cannot read " + folder / "x.bin: it is a directory");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused(folder / "pipe"), "cannot read " + folder / "pipe: it is not a regular file");
}

TEST(BadTokenFiles, LlmcHeadersThatLie) {
  const Folder folder;
  const auto llmc = [&](std::int32_t magic, std::int32_t version, std::int32_t count,
                        const std::string& body) {
    std::vector<std::int32_t> header(256);
    header[0] = magic, header[1] = version, header[2] = count;
    return refused(folder.write("x.bin", packed(header) + body));
  };
  const std::string sound = folder / "x.bin is not a sound llm.c token file: ";
  EXPECT_EQ(llmc(20240520, 1, 2, "abcd"), "accepted");
  EXPECT_EQ(llmc(20240801, 7, 1, "abcd"), "accepted");
  EXPECT_EQ(llmc(20240520, 7, 2, "abcd"), sound + "its version is 7, known with this magic is 1");
  EXPECT_EQ(llmc(20240801, 1, 1, "abcd"), sound + "its version is 1, known with this magic is 7");
  EXPECT_EQ(llmc(20240520, 1, -1, "abcd"), sound + "its header says -1 tokens");
  EXPECT_EQ(llmc(20240520, 1, INT32_MIN, "abcd"), sound + "its header says -2147483648 tokens");
  EXPECT_EQ(llmc(20240801, 7, INT32_MAX, "abcd"),
            sound + "its header says 2147483647 tokens, that is 8589935612 bytes, but it has 1028");
  EXPECT_EQ(llmc(20240520, 1, 1, "abcd"),
            sound + "its header says 1 tokens, that is 1026 bytes, but it has 1028");
  EXPECT_EQ(llmc(20240802, 7, 1, "abcd"), folder /
                                              "x.bin is not a token file: it has a header, but not one of "
                                              "llm.c (its first bytes are 20240802 as an i32)");
}

TEST(BadTokenFiles, OtherKindsAreNamed) {
  const Folder folder;
  const auto kind = [&](const std::string& bytes) {
    const std::string message = refused(folder.write("x.bin", bytes));
    const std::string start = folder / "x.bin is not a token file: ";
    return message.starts_with(start) ? message.substr(start.size()) : message;
  };
  const std::string rest(100, '\x80');
  EXPECT_EQ(kind(""), "it is empty");
  EXPECT_EQ(kind("\x93NUMPY" + rest),
            "it is a NumPy array; write its ids without header (ndarray.tofile), or as Megatron files");
  EXPECT_EQ(kind("BIN.TOK\n" + rest), "it is an LLMQ token file, a format that is not read");
  EXPECT_EQ(kind("PK\x03\x04" + rest), "it is a ZIP archive (an .npz or a PyTorch file is one)");
  EXPECT_EQ(kind("\x1f\x8b" + rest), "it is compressed by gzip");
  EXPECT_EQ(kind("\x28\xb5\x2f\xfd" + rest), "it is compressed by zstd");
  EXPECT_EQ(kind("PAR1" + rest), "it is a Parquet file");
  EXPECT_EQ(kind("\x80\x04" + rest + "."), "it is a Python pickle");
  EXPECT_EQ(kind(packed<std::uint64_t>(2) + "{}"), "it is a safetensors file");
  const std::string text = "it is text; strata prepare makes token files of text and JSONL";
  EXPECT_EQ(kind("Call me Ishmael.\n"), text);
  EXPECT_EQ(kind("{\"text\": \"Gr\xc3\xbc\xc3\x9f"
                 "e\"}\n"),
            text);
  EXPECT_EQ(kind("一二三四"), text);
  EXPECT_EQ(kind(std::string(1 << 16, 'x') + "\xe4"), text)
      << "a long file, of which the beginning is looked at";
  EXPECT_EQ(kind("abc\x01"), "accepted") << "control characters are not text";
  const std::string wide = "it has no header and looks like 32-bit ids; without header, ids are u16";
  EXPECT_EQ(kind(packed(std::vector<std::int32_t>{464, 3290, 318, 257, 922, 1310, 50256, 66000})), wide);
  EXPECT_EQ(kind(packed(std::vector<std::int64_t>{464, 3290, 318, 257})), wide);
  EXPECT_EQ(kind(packed(std::vector<std::uint16_t>{464, 3290, 318, 257, 922, 1310, 50256, 7, 1, 0, 1, 0, 1, 0,
                                                   1, 0})),
            "accepted");
}

}  // namespace
}  // namespace strata::test
