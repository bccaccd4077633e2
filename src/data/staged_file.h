// A file that appears whole or not at all: written as PATH.part, moved to PATH by commit(), removed without
// it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace strata::data {

class StagedFile {
 public:
  // InputError if it cannot be made.
  explicit StagedFile(const std::string& path);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;

  // Error if the disk is full, and for all else that goes wrong while writing.
  void write(std::span<const std::byte> bytes);
  // After this all bytes are on the disk, still as PATH.part.
  void sync();
  // Takes its name, replacing a file that has it.
  void commit();

 private:
  void flush();
  [[noreturn]] void fail() const;

  std::string path_, part_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
};

// Writes names of new files in `folder` to the disk; a file system that cannot is not an error.
void sync_folder(const std::string& folder);

}  // namespace strata::data
