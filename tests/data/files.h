// A folder of a test's own, and token files made by hand.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "support/temp_folder.h"

namespace strata::test {

extern const std::string kFormats;  // folder of the format fixtures, with a slash behind

class Folder : public TempFolder {
 public:
  // Returns the path.
  std::string write(const std::string& file, std::string_view bytes) const {
    write_file(*this / file, std::string(bytes));
    return *this / file;
  }
};

// The bytes of values one after the other, little-endian.
template <class T>
std::string packed(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
std::string packed(T value) {
  return packed(std::vector<T>{value});
}

// A Megatron index with each part as one likes.
struct Index {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::vector<std::int32_t> lengths = {3, 2};
  std::vector<std::int64_t> offsets = {0, 6};
  std::vector<std::int64_t> documents = {0, 1, 2};
  std::optional<std::uint64_t> sequence_count = {}, document_count = {};  // instead of the true ones
  std::string tail = {};

  std::string bytes() const {
    return magic + packed(version) + packed(code) + packed(sequence_count.value_or(lengths.size())) +
           packed(document_count.value_or(documents.size())) + packed(lengths) + packed(offsets) +
           packed(documents) + tail;
  }
};

// A u16 Megatron pair of these documents; returns the prefix.
inline std::string write_documents(const Folder& folder, const std::string& name,
                                   const std::vector<std::vector<std::uint16_t>>& documents) {
  Index index{.lengths = {}, .offsets = {}, .documents = {0}};
  std::string bin;
  for (const auto& document : documents) {
    index.lengths.push_back(std::int32_t(document.size()));
    index.offsets.push_back(std::int64_t(bin.size()));
    index.documents.push_back(std::int64_t(index.lengths.size()));
    bin += packed(document);
  }
  folder.write(name + ".idx", index.bytes());
  folder.write(name + ".bin", bin);
  return folder / name;
}

// `count` documents of 1 to 2 `mean` tokens; token i of the whole file is i.
inline std::vector<std::vector<std::uint16_t>> numbered_documents(int count, int mean, unsigned state = 1) {
  std::vector<std::vector<std::uint16_t>> documents(std::size_t(count), std::vector<std::uint16_t>{});
  std::uint16_t next = 0;
  for (auto& document : documents) {
    state = state * 1103515245u + 12345u;
    for (unsigned n = 1 + (state >> 16) % unsigned(2 * mean); n > 0; --n) document.push_back(next++);
  }
  return documents;
}

// What an action is refused with; "accepted" if it is not.
template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace strata::test
