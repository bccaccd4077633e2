// Checksums of files: XXH3, 64 bits. https://github.com/Cyan4973/xxHash
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace strata::checkpoint {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  void add(std::span<const std::byte> bytes);
  // Of all that was added: 16 lower-case hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_of(const std::string& text);
// Of a whole file, in constant memory.
std::string digest_of_file(const class InputFile& file);

}  // namespace strata::checkpoint
