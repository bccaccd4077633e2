// A whole file, mapped read-only.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace strata::data {

class MappedFile {
 public:
  MappedFile() = default;
  // InputError if it is not a regular file or cannot be read. An empty file has no bytes.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace strata::data
