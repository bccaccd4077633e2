// TensorBoard's event files, read back by a decoder that shares nothing with the writer.
#include "train/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "base/error.h"
#include "support/temp_folder.h"

namespace strata::test {
namespace {

// CRC-32C, one bit at a time by the polynomial itself (0x1EDC6F41 reflected).
std::uint32_t bitwise_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = (crc ^ (static_cast<unsigned char>(c) >> bit)) & 1;
      crc = (crc >> 1) ^ (odd ? 0x82f63b78 : 0);
    }
  return ~crc;
}

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value;
  EXPECT_LE(at + sizeof value, bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A message as its fields: number -> values; of length-delimited ones the bytes.
struct Message {
  std::multimap<int, std::string> bytes;
  std::map<int, std::uint64_t> integers;
  std::map<int, double> reals;
};

Message decode(const std::string& text) {
  Message m;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(text.at(at++));
      value |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < text.size()) {
    const std::uint64_t key = varint();
    const int field = int(key >> 3);
    switch (key & 7) {
      case 0:
        m.integers[field] = varint();
        break;
      case 1:
        m.reals[field] = number_at<double>(text, at);
        at += 8;
        break;
      case 2: {
        const std::uint64_t size = varint();
        m.bytes.emplace(field, text.substr(at, size));
        at += size;
        break;
      }
      case 5:
        m.reals[field] = number_at<float>(text, at);
        at += 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return m;
    }
  }
  EXPECT_EQ(at, text.size());
  return m;
}

std::vector<Message> events(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  std::vector<Message> all;
  const auto unmasked = [&](std::size_t at) {
    const std::uint32_t rotated = number_at<std::uint32_t>(file, at) - 0xa282ead8;
    return rotated << 15 | rotated >> 17;
  };
  for (std::size_t at = 0; at < file.size();) {
    const auto size = number_at<std::uint64_t>(file, at);
    EXPECT_EQ(unmasked(at + 8), bitwise_crc(file.substr(at, 8)));
    const std::string data = file.substr(at + 12, size);
    EXPECT_EQ(unmasked(at + 12 + size), bitwise_crc(data));
    all.push_back(decode(data));
    at += 16 + size;
  }
  return all;
}

std::map<std::string, double> scalars(const Message& event) {
  std::map<std::string, double> found;
  const Message summary = decode(event.bytes.find(5)->second);
  for (const auto& [field, value] : summary.bytes) {
    const Message m = decode(value);
    EXPECT_EQ(field, 1);
    found[m.bytes.find(1)->second] = m.reals.at(2);
  }
  return found;
}

// RFC 3720, B.4.
TEST(EventFile, ChecksumsAreThoseOfTheStandard) {
  std::string up(32, 0);
  std::iota(up.begin(), up.end(), 0);
  EXPECT_EQ(train::crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(train::crc32c(std::string(32, '\xff')), 0x62a8ab43);
  EXPECT_EQ(train::crc32c(up), 0x46dd794e);
  EXPECT_EQ(train::crc32c(std::string(up.rbegin(), up.rend())), 0x113fdb5c);
  EXPECT_EQ(train::crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(bitwise_crc("123456789"), 0xe3069283) << "the test's own";
}

TEST(EventFile, HoldsScalarsByStepInGroups) {
  const TempFolder folder;
  train::EventFile file(folder.path() + "/deep/er", 0);
  file.write(1, {{"lm loss", 5.5}, {"expert load max/mean layer 1", 1.25}});
  file.write(300, {{"lm loss", NAN}, {"gate mean stream 2", -1e-3}});
  file.write(std::int64_t(1) << 40, {{"lm loss validation a", 2}});
  const std::vector<Message> all = events(file.path());
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].bytes.find(3)->second, "brain.Event:2");
  EXPECT_NEAR(all[2].reals.at(1), double(std::time(nullptr)), 100);
  EXPECT_EQ(all[2].integers.at(2), 1u);
  EXPECT_EQ(scalars(all[2]), (std::map<std::string, double>{{"train/lm loss", 5.5},
                                                            {"experts/expert load max/mean layer 1", 1.25}}));
  EXPECT_EQ(all[3].integers.at(2), 300u);
  EXPECT_TRUE(std::isnan(scalars(all[3]).at("train/lm loss")));
  EXPECT_EQ(scalars(all[3]).at("depth/gate mean stream 2"), -1e-3f);
  EXPECT_EQ(all[4].integers.at(2), std::uint64_t(1) << 40);
  EXPECT_EQ(scalars(all[4]).count("validation/lm loss validation a"), 1u);
}

// TensorBoard's rule (file_version 2): SessionLog.START at step s drops what came before of s and later.
TEST(EventFile, NextPartTakesUpWhereTheRunGoesOn) {
  const TempFolder folder;
  train::EventFile first(folder.path(), 0), second(folder.path(), 7);
  EXPECT_LT(first.path(), second.path()) << "read in the order of names, even within one second";
  for (const auto& [path, step] : {std::pair{first.path(), 1}, {second.path(), 8}}) {
    const Message start = events(path).at(1);
    EXPECT_EQ(start.integers.at(2), std::uint64_t(step));
    EXPECT_EQ(decode(start.bytes.find(7)->second).integers.at(1), 1u) << "START";
  }
}

TEST(EventFile, FoldersThatCannotBeWrittenAreErrors) {
  EXPECT_THROW(train::EventFile("/dev/null/x", 0), InputError);
  EXPECT_THROW(train::EventFile("/proc", 0), InputError);
}

}  // namespace
}  // namespace strata::test
