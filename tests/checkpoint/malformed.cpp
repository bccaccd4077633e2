// Malformed safetensors files, one fault each: every one is refused with its reason.
#include <gtest/gtest.h>

#include "samples.h"

namespace strata::test {
namespace {

using checkpoint::SafetensorsFile;

class Malformed : public ::testing::Test {
 protected:
  // What is wrong with a file of this header and data.
  std::string fault(const std::string& header, const std::string& data) const {
    write_safetensors(path, header, data);
    return fault_of(path);
  }

  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
};

TEST_F(Malformed, HeadersThatAreJson) {
  const std::string f32 = R"("dtype":"F32")";
  const auto one = [&](const std::string& body) { return "{\"a\":{" + body + "}}"; };
  const struct {
    std::string header, data, fault;
  } all[] = {
      {"[1]", "", "its header does not begin with {"},
      {"  \n", "", "its header does not begin with {"},
      {"", "", "its header does not begin with {"},
      {one(f32 + R"(,"shape":[1])"), "abcd", "tensor \"a\" lacks dtype, shape or data_offsets"},
      {R"({"a":3})", "", "tensor \"a\" lacks dtype, shape or data_offsets"},
      {one(R"("dtype":7,"shape":[1],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":1,"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[0,4,8])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has the unknown dtype \"F31\""},
      {one(f32 + R"(,"shape":[-1],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has -1 where a number from 0 is due"},
      {one(f32 + R"(,"shape":[1.5],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has 1.5 where a number from 0 is due"},
      {one(f32 + R"(,"shape":[18446744073709551615],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has 18446744073709551615 where a number from 0 is due"},
      {one(f32 + R"(,"shape":[4294967296,4294967296],"data_offsets":[0,0])"), "",
       "tensor \"a\" has more elements than fit"},
      {one(f32 + R"(,"shape":[2],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" takes bytes 0 to 4, which is not its shape and dtype"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[4,0])"), "abcd",
       "tensor \"a\" takes bytes 4 to 0, which is not its shape and dtype"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[4,8])"), "abcdabcd", "its data has a hole at byte 0"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[0,4])"), "abcdabcd",
       "its header describes 4 bytes of data, the file holds 8"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[0,4])"), "ab",
       "its header describes 4 bytes of data, the file holds 2"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
       "abcdef", "its data has an overlap at byte 2"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       "", "its header names \"a\" twice"},
      {R"({"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})", "",
       "its header names \"dtype\" twice"},
      {R"({"__metadata__":{"lr":3}})", "", "its __metadata__ \"lr\" is not a string"},
      {R"({"__metadata__":"text"})", "", "its __metadata__ is not an object"},
      {one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), "ab",
       "tensor \"a\" does not fill whole bytes"},
      {one(R"("dtype":"F6_E2M3","shape":[2],"data_offsets":[0,1])"), "a",
       "tensor \"a\" does not fill whole bytes"},
      {one(R"("dtype":"","shape":[1],"data_offsets":[0,1])"), "a", "tensor \"a\" has the unknown dtype \"\""},
      {one(R"("dtype":"F32 ","shape":[1],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has the unknown dtype \"F32 \""},
      {one(R"("dtype":["F32"],"shape":[1],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":{"0":1},"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":[1],"data_offsets":"0,4")"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[0])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":[[1]],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has a list where a number from 0 is due"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[0,{}])"), "abcd",
       "tensor \"a\" has an object where a number from 0 is due"},
      {one(f32 + R"(,"shape":["1"],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has \"1\" where a number from 0 is due"},
      {one(f32 + R"(,"shape":[true],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has true where a number from 0 is due"},
      {one(f32 + R"(,"shape":[null],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has null where a number from 0 is due"},
      {one(f32 + R"(,"shape":null,"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has a dtype, shape or data_offsets of the wrong kind"},
      {one(f32 + R"(,"shape":[-0],"data_offsets":[0,0])"), "",
       "tensor \"a\" has -0 where a number from 0 is due"},
      {one(f32 + R"(,"shape":[1e0],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has 1e0 where a number from 0 is due"},
      {one(f32 + R"(,"shape":[9223372036854775808],"data_offsets":[0,4])"), "abcd",
       "tensor \"a\" has 9223372036854775808 where a number from 0 is due"},
      {one(f32 + R"(,"shape":[2305843009213693952],"data_offsets":[0,0])"), "",
       "tensor \"a\" has more elements than fit"},
      {one(f32 + R"(,"shape":[4611686018427387904,4611686018427387904,0],"data_offsets":[0,0])"), "",
       "tensor \"a\" has more elements than fit"},
      {one(f32 + R"(,"shape":[1],"data_offsets":[0,9223372036854775807])"), "abcd",
       "tensor \"a\" takes bytes 0 to 9223372036854775807, which is not its shape and dtype"},
      {one(f32 + R"(,"shape":[0],"data_offsets":[4,4])"), "abcd", "its data has a hole at byte 0"},
      {one(f32 + R"(,"shape":[0],"data_offsets":[0,0])"), "abcd",
       "its header describes 0 bytes of data, the file holds 4"},
      {"{}", "a", "its header describes 0 bytes of data, the file holds 1"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       "ab", "its data has an overlap at byte 0"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
       "abc", "its data has an overlap at byte 1"},
      {one(R"("dtype":"U8","shape":[0],"data_offsets":[0,0],"shape":[0])"), "",
       "its header names \"shape\" twice"},
      {one(R"("dtype":"U8","shape":[0],"data_offsets":[0,0],"data_offsets":[0,0])"), "",
       "its header names \"data_offsets\" twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "", "its header names \"__metadata__\" twice"},
      {R"({"__metadata__":null,"__metadata__":{}})", "", "its header names \"__metadata__\" twice"},
      {R"({"__metadata__":{"a":"1","a":"1"}})", "", "its header names \"a\" twice"},
      {R"({"__metadata__":{"a":null}})", "", "its __metadata__ \"a\" is not a string"},
      {R"({"__metadata__":{"a":["b"]}})", "", "its __metadata__ \"a\" is not a string"},
      {R"({"__metadata__":[]})", "", "its __metadata__ is not an object"},
      {R"({"a":null})", "", "tensor \"a\" lacks dtype, shape or data_offsets"},
      {R"({"a":[]})", "", "tensor \"a\" lacks dtype, shape or data_offsets"},
      {R"({"a":{}})", "", "tensor \"a\" lacks dtype, shape or data_offsets"},
      {"\"{}\"", "", "its header does not begin with {"},
      {std::string("{}\0\0", 4), "", "its header holds a zero byte"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       "", "its header names \"a\" twice"},
      {"{\"line\\n\":3}", "", "tensor \"line\\n\" lacks dtype, shape or data_offsets"},
      {"{\"" + std::string(5000, 'n') + "\":3}", "",
       "tensor \"" + std::string(120, 'n') + "\"... lacks dtype, shape or data_offsets"},
  };
  for (const auto& c : all) EXPECT_EQ(fault(c.header, c.data), c.fault) << c.header.substr(0, 200);
}

TEST_F(Malformed, HeadersThatAreNotJson) {
  for (const std::string& header :
       {std::string("{"), std::string("{\"a\":"), std::string("{} x"), std::string("{}{}"),
        std::string("{,}"), std::string("{\"__metadata__\":{}"), std::string("{'a':1}"), std::string("{a:1}"),
        std::string("{\"__metadata__\":NaN}"), std::string("{\"__metadata__\":{}01}"), std::string("{}//"),
        std::string("{\"__metadata__\":{},}"), std::string("{\"\xff\":1}"), std::string("{\"\xc0\x80\":1}"),
        std::string("{\"\xed\xa0\x80\":1}"), std::string("{\"\\ud800\":1}"), std::string("{\"a\":1e999}"),
        std::string("{\"\t\":1}")})
    EXPECT_TRUE(fault(header, "").starts_with("its header is not JSON ("))
        << header << ": " << fault(header, "");
}

TEST_F(Malformed, NestingIsBoundedAndNeverRecursed) {
  const auto nested = [](int levels) {
    return R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":)" + std::string(levels, '[') +
           std::string(levels, ']') + "}}";
  };
  EXPECT_EQ(fault(nested(62), ""), "no error");
  EXPECT_EQ(fault(nested(63), ""), "its header is nested deeper than 64 levels");
  EXPECT_EQ(fault(nested(10'000'000), ""), "its header is nested deeper than 64 levels");
  EXPECT_EQ(fault("{\"a\":" + std::string(1'000'000, '{'), ""),
            "its header is not JSON (parse error at line 1, column 7: "
            "syntax error "
            "while parsing object key - unexpected '{'; expected string literal)");
}

TEST_F(Malformed, UnknownFieldsMayHoldAnything) {
  EXPECT_EQ(
      fault(
          R"({"a":{"x":{"dtype":3,"y":[{"z":null}]},"dtype":"U8","shape":[0],"n":-1.5e3,"data_offsets":[0,0],"s":"t","b":true,"u":null}})",
          ""),
      "no error");
}

// Ten thousand tensors whose header cannot be true cost no more than it takes to read it.
TEST_F(Malformed, ManyTensors) {
  std::string header = "{";
  for (int i = 0; i < 10'000; ++i)
    header += "\"t" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]},";
  header.back() = '}';
  EXPECT_EQ(fault(header, std::string(10'000, 'x')), "no error");
  EXPECT_EQ(fault(header, std::string(9'999, 'x')),
            "its header describes 10000 bytes of data, the file holds 9999");
}

}  // namespace
}  // namespace strata::test
