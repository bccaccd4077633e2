// safetensors files: what is written reads back, and every malformed file is refused with its fault.
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "samples.h"

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
  std::string fault() const { return fault_of(path); }

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

TEST_F(Safetensors, RawAndTypedReads) {
  std::vector<double> values(100000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(i) / 8;
  SafetensorsWriter writer;
  for (const char* dtype : {"F64", "F32", "BF16"}) writer.add(dtype, dtype, {4, 25000}, values);
  writer.add_integers("I64", {1}, {5});
  writer.write(path);
  const SafetensorsFile file(path);
  for (const char* name : {"F64", "F32", "BF16"}) {
    const std::vector<double> want = file.floats(name);
    std::vector<double> doubles(values.size());
    std::vector<float> floats(values.size());
    std::vector<bfloat16> halves(values.size());
    file.read(name, std::span(doubles));
    file.read(name, std::span(floats));
    file.read(name, std::span(halves));
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(doubles[i], want[i]) << name << " " << i;
      ASSERT_EQ(floats[i], float(want[i])) << name << " " << i;
      ASSERT_EQ(float(halves[i]), float(bfloat16(float(want[i])))) << name << " " << i;
    }
  }
  std::vector<float> floats(values.size());
  std::vector<std::byte> bytes(floats.size() * 4);
  file.read("F32", std::span(floats));
  file.read("F32", std::span(bytes));
  EXPECT_EQ(std::memcmp(bytes.data(), floats.data(), bytes.size()), 0);
  EXPECT_THROW(file.read("F32", std::span(bytes).first(4)), Error) << "another size";
  EXPECT_THROW(file.read("F32", std::span(floats).first(4)), Error);
  EXPECT_THROW(file.read("I64", std::span(floats).first(1)), InputError);
  EXPECT_THROW(file.read("none", std::span(floats)), InputError);
}

TEST_F(Safetensors, TheFileIsTheOneThatWasOpened) {
  SafetensorsWriter writer;
  writer.add("a", "F32", {1}, {1});
  writer.write(path);
  const SafetensorsFile file(path);
  SafetensorsWriter other;
  other.add("a", "F32", {1}, {2});
  other.write(path);
  EXPECT_EQ(file.floats("a"), std::vector<double>{1});
}

TEST_F(Safetensors, AStreamCopiesNothing) {
  const std::vector<float> b{1, 2}, a{3};
  const std::vector<bfloat16> none;
  const checkpoint::SafetensorsStream stream(
      {{"b", DType::Float32, {2}, std::as_bytes(std::span(b))},
       {"a", DType::Float32, {}, std::as_bytes(std::span(a))},
       {"c", DType::BFloat16, {0, 3}, std::as_bytes(std::span(none))}});
  std::string bytes;
  std::vector<const void*> parts;
  stream.write([&](std::span<const std::byte> part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    parts.push_back(part.data());
  });
  EXPECT_EQ(std::int64_t(bytes.size()), stream.bytes());
  EXPECT_EQ(parts.at(1), a.data());
  EXPECT_EQ(parts.at(2), b.data());
  SafetensorsWriter writer;
  writer.add("a", "F32", {}, {3});
  writer.add("b", "F32", {2}, {1, 2});
  writer.add("c", "BF16", {0, 3}, {});
  writer.write(path);
  EXPECT_EQ(read_file(path), bytes) << "the same file";
  EXPECT_THROW(checkpoint::SafetensorsStream({{"a", DType::Float32, {2}, std::as_bytes(std::span(a))}}),
               Error);
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
  write_safetensors(
      path,
      R"({"h":{"dtype":"F16","shape":[6],"data_offsets":[0,12]},"i":{"dtype":"I32","shape":[2],)"
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
  EXPECT_EQ(fault(), "cannot read " + path + ": no such file");
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
