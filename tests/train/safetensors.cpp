// safetensors files: what is written reads back, and every malformed file is refused with its fault.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace strata::test {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::SafetensorsWriter;
using Shape = std::vector<std::int64_t>;

class Safetensors : public ::testing::Test {
 protected:
  Safetensors()
      : path(testing::TempDir() + "strata_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
  }
  ~Safetensors() override { std::filesystem::remove(path); }

  void write_bytes(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  void write_file(const std::string& header, const std::string& data) const {
    const std::uint64_t length = header.size();
    write_bytes(std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
  }
  std::string fault() const {
    try {
      const SafetensorsFile file(path);
    } catch (const InputError& e) {
      const std::string text = e.what(), start = path + " is not a sound safetensors file: ";
      return text.starts_with(start) ? text.substr(start.size()) : "whole message: " + text;
    }
    return "no fault";
  }

  const std::string path;
};

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST_F(Safetensors, RoundTrip) {
  const std::vector<double> values{0.1, -2.5, 1e300, 0, -0.0, 3};
  SafetensorsWriter writer;
  writer.add("double", "F64", {2, 3}, values);
  writer.add("single", "F32", {3}, {0.1, -2.5, 3});
  writer.add("half", "BF16", {2}, {1.00390625, -2.5});
  writer.add("empty", "F32", {0, 4}, {});
  writer.add("scalar", "F32", {}, {7});
  writer.add_integers("ids", {2, 2}, {1, -100, std::int64_t(1) << 60, 0});
  writer.metadata("lr", "0.003");
  writer.metadata("odd \"text\"", "line\n");
  writer.write(path);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), 6u);
  EXPECT_EQ(file.floats("double"), values);
  EXPECT_TRUE(std::signbit(file.floats("double")[4]));
  EXPECT_EQ(file.floats("single"), (std::vector<double>{double(0.1f), -2.5, 3}));
  EXPECT_EQ(file.floats("half"), (std::vector<double>{1, -2.5})) << "ties go to even";
  EXPECT_EQ(file.floats("empty"), std::vector<double>{});
  EXPECT_EQ(file.floats("scalar"), std::vector<double>{7});
  EXPECT_EQ(file.integers("ids"), (std::vector<std::int64_t>{1, -100, std::int64_t(1) << 60, 0}));
  EXPECT_EQ(file.at("double").shape, (Shape{2, 3}));
  EXPECT_EQ(file.at("empty").shape, (Shape{0, 4}));
  EXPECT_EQ(file.at("scalar").shape, Shape{});
  EXPECT_EQ(file.metadata(),
            (std::map<std::string, std::string>{{"lr", "0.003"}, {"odd \"text\"", "line\n"}}));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST_F(Safetensors, DataStartsAlignedAndNothingIsWasted) {
  SafetensorsWriter writer;
  writer.add("a", "F32", {3}, {1, 2, 3});
  writer.write(path);
  std::uint64_t length = 0;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&length), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(std::filesystem::file_size(path), 8 + length + 12);
}

TEST_F(Safetensors, NonFiniteValuesSurvive) {
  SafetensorsWriter writer;
  for (const char* dtype : {"F64", "F32", "BF16"}) writer.add(dtype, dtype, {3}, {INFINITY, -INFINITY, NAN});
  writer.write(path);
  const SafetensorsFile file(path);
  for (const auto& [name, t] : file.tensors()) {
    const std::vector<double> v = file.floats(name);
    EXPECT_EQ(v[0], INFINITY) << name;
    EXPECT_EQ(v[1], -INFINITY) << name;
    EXPECT_TRUE(std::isnan(v[2])) << name;
  }
}

TEST_F(Safetensors, ReadsTypesItDoesNotWrite) {
  write_file(R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},"i":{"dtype":"I32","shape":[2],)"
             R"("data_offsets":[12,20]},"u":{"dtype":"U8","shape":[2],"data_offsets":[20,22]}})",
             raw<std::uint16_t>({0x3c00, 0xc100, 0x0001, 0x7bff, 0x7c00, 0x8000}) +
                 raw<std::int32_t>({-5, 1 << 30}) + "ab");
  const SafetensorsFile file(path);
  EXPECT_EQ(file.floats("h"), (std::vector<double>{1, -2.5, std::ldexp(1, -24), 65504, INFINITY, 0}));
  EXPECT_EQ(file.integers("i"), (std::vector<std::int64_t>{-5, 1 << 30}));
  const auto message = [&](auto read) {
    try {
      read();
    } catch (const InputError& e) {
      return std::string(e.what()).substr(path.size());
    }
    return std::string();
  };
  EXPECT_EQ(message([&] { file.floats("i"); }), ": tensor \"i\" is I32; F64, F32, BF16 or F16 is needed");
  EXPECT_EQ(message([&] { file.integers("h"); }), ": tensor \"h\" is F16; I64 or I32 is needed");
  EXPECT_EQ(message([&] { file.integers("u"); }), ": tensor \"u\" is U8; I64 or I32 is needed");
  EXPECT_EQ(message([&] { file.floats("none"); }), " has no tensor \"none\"");
}

TEST_F(Safetensors, RefusesMalformedFiles) {
  const std::string f32 = R"("dtype":"F32")";
  const auto one = [&](const std::string& body) { return "{\"a\":{" + body + "}}"; };
  const struct {
    std::string header, data, fault;
  } all[] = {
      {"[1]", "", "its header does not begin with {"},
      {" {}", "", "its header does not begin with {"},
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
  };
  for (const auto& c : all) {
    write_file(c.header, c.data);
    EXPECT_EQ(fault(), c.fault) << c.header;
  }
  write_file(R"({"a":)", "");
  EXPECT_TRUE(fault().starts_with("its header is not JSON (")) << fault();
}

TEST_F(Safetensors, RefusesFilesThatAreCutOrClaimTooMuch) {
  write_bytes("");
  EXPECT_EQ(fault(), "it is shorter than its 8-byte length");
  write_bytes("1234567");
  EXPECT_EQ(fault(), "it is shorter than its 8-byte length");
  write_bytes(raw<std::uint64_t>({3}) + "{}");
  EXPECT_EQ(fault(), "its header claims 3 bytes, the file has 2");
  write_bytes(raw<std::uint64_t>({~std::uint64_t(0)}) + "{}");
  EXPECT_EQ(fault(), "its header claims 18446744073709551615 bytes; at most 100000000 are allowed");
  write_bytes(raw<std::uint64_t>({100000001}) + "{}");
  EXPECT_EQ(fault(), "its header claims 100000001 bytes; at most 100000000 are allowed");
}

TEST_F(Safetensors, RefusesWhatIsNoFile) {
  EXPECT_EQ(fault(), "whole message: cannot read " + path + ": no such file");
  EXPECT_THROW(SafetensorsFile(testing::TempDir()), InputError);
}

TEST_F(Safetensors, AFileThatShrinksIsNoticed) {
  SafetensorsWriter writer;
  writer.add("a", "F32", {2}, {1, 2});
  writer.write(path);
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THROW(file.floats("a"), InputError);
}

TEST_F(Safetensors, WritingNowhereIsRefusedAndOldFilesStayWhole) {
  SafetensorsWriter writer;
  writer.add("a", "F32", {1}, {1});
  EXPECT_THROW(writer.write(path + "/none/x"), InputError);
  EXPECT_THROW(writer.add("b", "I8", {1}, {1}), Error);
  writer.write(path);
  writer.write(path);
  EXPECT_EQ(SafetensorsFile(path).floats("a"), std::vector<double>{1});
}

}  // namespace
}  // namespace strata::test
