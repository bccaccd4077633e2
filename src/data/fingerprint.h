// Identity of data by content: XXH3 (128 bits) over what is added, in order.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/token_file.h"

namespace strata::data {

class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();

  void add(std::int64_t value);
  // Size and content; beyond 1 GiB, 1024 blocks of 1 MiB at even distances, the first and the last among
  // them.
  void add(std::span<const std::byte> bytes);
  // Element type, tokens, documents.
  void add(const TokenFile& file);
  // 32 digits.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::data
