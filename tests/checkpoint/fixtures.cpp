// safetensors files made by others: sound ones and malformed ones, all judged as the Rust library judges
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "checkpoint/weight_set.h"
#include "samples.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using checkpoint::SafetensorsFile;
using checkpoint::WeightSet;

const std::string kFolder = STRATA_TEST_FIXTURES "/formats/safetensors/";

SafetensorsFile good(const std::string& name) {
  return SafetensorsFile(kFolder + "good/" + name + ".safetensors");
}

// The fault of a malformed file.
std::string fault(const std::string& name) { return fault_of(kFolder + "bad/" + name + ".safetensors"); }

TEST(SafetensorsFixtures, GoodFiles) {
  const std::map<std::string, std::size_t> tensors{{"all_dtypes", 16},
                                                   {"extra_field_in_tensor", 1},
                                                   {"leading_ws", 0},
                                                   {"metadata_null", 1},
                                                   {"misaligned_f32", 2},
                                                   {"no_tensors", 0},
                                                   {"only_metadata", 0},
                                                   {"subbyte_f4", 1},
                                                   {"trailing_ws_crlf_tab", 0},
                                                   {"unsorted_keys", 2},
                                                   {"zero_sized", 1}};
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kFolder + "good")) {
    const std::string name = entry.path().stem().string();
    EXPECT_EQ(good(name).tensors().size(), tensors.at(name)) << name;
    ++files;
  }
  EXPECT_EQ(files, tensors.size());
  EXPECT_EQ(good("only_metadata").metadata(),
            (std::map<std::string, std::string>{{"k", "v"}, {"uni", "\u00e9\u4f60"}}));
  EXPECT_EQ(good("misaligned_f32").floats("b"), std::vector<double>{2.5});
  EXPECT_EQ(good("subbyte_f4").at("a").numel(), 4);
  EXPECT_EQ(good("zero_sized").integers("test"), std::vector<std::int64_t>{});
  std::vector<std::byte> bytes(2);
  good("unsorted_keys").read("a", std::span(bytes));
  EXPECT_EQ(char(bytes[0]), 'a');
  good("subbyte_f4").read("a", std::span(bytes));
  EXPECT_EQ(int(bytes[0]), 0x12);
}

TEST(SafetensorsFixtures, BadFiles) {
  const std::map<std::string, std::string> faults{
      {"bom_before_json", "its header does not begin with {"},
      {"comment_in_json",
       "its header is not JSON (parse error at line 1, column 2: syntax error while parsing object key - "
       "invalid literal)"},
      {"control_char_in_name",
       "its header is not JSON (parse error at line 1, column 4: syntax error while parsing object key - "
       "invalid string: control character U+0001 (SOH) must be escaped to \\u0001)"},
      {"data_truncated", "its header describes 16 bytes of data, the file holds 14"},
      {"deeply_nested", "tensor \"a\" lacks dtype, shape or data_offsets"},
      {"dim_over_u64", "tensor \"a\" has 18446744073709551616 where a number from 0 is due"},
      {"duplicate_field", "its header names \"dtype\" twice"},
      {"duplicate_keys_different", "its header names \"a\" twice"},
      {"duplicate_metadata", "its header names \"__metadata__\" twice"},
      {"float_dim", "tensor \"a\" has 1.0 where a number from 0 is due"},
      {"header_array", "its header does not begin with {"},
      {"header_len_2pow63", "its header claims 9223372036854775808 bytes; at most 100000000 are allowed"},
      {"header_len_max_u64", "its header claims 18446744073709551615 bytes; at most 100000000 are allowed"},
      {"header_len_over_100MB", "its header claims 100000001 bytes; at most 100000000 are allowed"},
      {"header_len_past_eof", "its header claims 1064 bytes, the file has 64"},
      {"header_not_json",
       "its header is not JSON (parse error at line 1, column 2: syntax error while parsing object key - "
       "unexpected end of input; expected string literal)"},
      {"header_not_utf8", "its header does not begin with {"},
      {"header_string", "its header does not begin with {"},
      {"identical_offsets", "its data has an overlap at byte 0"},
      {"lone_surrogate_escape",
       "its header is not JSON (parse error at line 1, column 10: syntax error while parsing object key - "
       "invalid string: surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF)"},
      {"lowercase_dtype", "tensor \"a\" has the unknown dtype \"f32\""},
      {"metadata_nested", "its __metadata__ \"k\" is not a string"},
      {"metadata_not_string", "its __metadata__ \"k\" is not a string"},
      {"name_not_utf8",
       "its header is not JSON (parse error at line 1, column 5: syntax error while parsing object key - "
       "invalid string: ill-formed UTF-8 byte)"},
      {"negative_dim", "tensor \"a\" has -1 where a number from 0 is due"},
      {"negative_offset", "tensor \"a\" has -4 where a number from 0 is due"},
      {"nul_padding", "its header holds a zero byte"},
      {"offset_hole_between", "its data has a hole at byte 4"},
      {"overlapping_offsets", "its data has an overlap at byte 4"},
      {"seven_bytes", "it is shorter than its 8-byte length"},
      {"shape_overflow", "tensor \"a\" has 18446744073709551614 where a number from 0 is due"},
      {"size_mismatch_dtype", "tensor \"a\" takes bytes 0 to 16, which is not its shape and dtype"},
      {"size_mismatch_shape", "tensor \"a\" takes bytes 0 to 4, which is not its shape and dtype"},
      {"trailing_garbage_after_json",
       "its header is not JSON (parse error at line 1, column 4: syntax error while parsing value - invalid "
       "literal)"},
      {"truncated_header", "its header claims 64 bytes, the file has 20"},
  };
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kFolder + "bad")) {
    const std::string name = entry.path().stem().string();
    const auto want = faults.find(name);
    EXPECT_EQ(fault(name), want == faults.end() ? "" : want->second) << name;
    ++files;
  }
  EXPECT_EQ(files, faults.size());
}

TEST(SafetensorsFixtures, Shards) {
  for (const std::string& path : {kFolder + "sharded", kFolder + "sharded/model.safetensors.index.json"}) {
    const WeightSet set(path);
    EXPECT_EQ(set.names(),
              (std::vector<std::string>{"lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"}));
    EXPECT_EQ(set.files().size(), 2u);
    for (const std::string& name : set.names())
      EXPECT_EQ(std::int64_t(set.file_of(name).floats(name).size()), set.at(name).numel()) << name;
    EXPECT_TRUE(set.file_of("lm_head.weight").path().ends_with("/model-00002-of-00002.safetensors"));
    EXPECT_FALSE(set.has("none"));
    EXPECT_THROW(set.file_of("none"), InputError);
  }
}

class Index : public ::testing::Test {
 protected:
  Index() {
    fs::copy(kFolder + "sharded", folder.path(),
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }
  // The complaint about an index with `from` replaced.
  std::string complaint(const std::string& from, const std::string& to) const {
    const std::string path = folder / "model.safetensors.index.json";
    const std::string whole = read_file(kFolder + "sharded/model.safetensors.index.json");
    std::string text = whole;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    write_file(path, text.replace(text.find(from), from.size(), to));
    try {
      const WeightSet set(folder.path());
    } catch (const InputError& e) {
      const std::string message = e.what();
      return message.starts_with(path) ? message.substr(path.size()) : message;
    }
    return "none";
  }
  const TempFolder folder;
};

TEST_F(Index, DisagreementsAreNamed) {
  EXPECT_EQ(complaint("metadata", "metadata"), "none");
  EXPECT_EQ(complaint("\"model.embed_tokens.weight\": \"model-00001-of-00002.safetensors\",", ""),
            ": its shards hold weights that it does not place there: model.embed_tokens.weight (in "
            "model-00001-of-00002.safetensors)");
  EXPECT_EQ(complaint("\"lm_head.weight\": \"model-00002", "\"lm_head.weight\": \"model-00001"),
            " names weights that its shards lack: lm_head.weight (not in model-00001-of-00002.safetensors)");
  EXPECT_EQ(complaint("\"model.norm.weight\"", "\"model.norm.bias\""),
            " names weights that its shards lack: model.norm.bias (not in model-00001-of-00002.safetensors)");
  EXPECT_EQ(
      complaint("\"lm_head.weight\"", "\"x\": \"model-00002-of-00002.safetensors\", \"lm_head.weight\""),
      " names weights that its shards lack: x (not in model-00002-of-00002.safetensors)");
  EXPECT_EQ(complaint("\"lm_head.weight\": \"model-00002", "\"lm_head.weight\": \"model-00003"),
            "cannot read " + folder.path() + "/model-00003-of-00002.safetensors: no such file");
}

TEST_F(Index, AWeightInTwoShardsIsNamed) {
  checkpoint::SafetensorsWriter other;
  other.add("x", "F32", {1}, {1});
  other.add("lm_head.weight", "F32", {1}, {1});
  other.write(folder / "other.safetensors");
  EXPECT_EQ(complaint("\"lm_head.weight\"", "\"x\": \"other.safetensors\", \"lm_head.weight\""),
            ": its shards hold weights that it does not place there: lm_head.weight (in other.safetensors)");
}

TEST_F(Index, MalformedOnesAreRefused) {
  const std::string needed = ", the name of a file beside it is needed";
  EXPECT_EQ(complaint("\"weight_map\"", "\"weights\""), " has no object weight_map");
  EXPECT_EQ(complaint("\"model-00002-of-00002.safetensors\"", "2"),
            ": weight_map has 2 for \"lm_head.weight\"" + needed);
  EXPECT_EQ(complaint("\"model-00002-of-00002.safetensors\"", "\"../model-00002-of-00002.safetensors\""),
            ": weight_map has \"../model-00002-of-00002.safetensors\" for \"lm_head.weight\"" + needed);
  EXPECT_EQ(complaint("\"model-00002-of-00002.safetensors\"", "\"\""),
            ": weight_map has \"\" for \"lm_head.weight\"" + needed);
  EXPECT_EQ(complaint("\"lm_head.weight\"", "\"model.norm.weight\": \"x\", \"model.norm.weight\""),
            " names \"model.norm.weight\" twice");
  EXPECT_TRUE(complaint("}", "").starts_with(" is not JSON ("));
  EXPECT_EQ(complaint("36", std::string(100000, '[')), " is nested deeper than 16 levels");
  EXPECT_EQ(complaint("36", std::string("3\0006", 3)), " holds a zero byte");
  fs::remove(folder / "model.safetensors.index.json");
  EXPECT_THROW(WeightSet(folder.path()), InputError);
}

}  // namespace
}  // namespace strata::test
