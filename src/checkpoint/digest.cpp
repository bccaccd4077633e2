#include "checkpoint/digest.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "checkpoint/disk.h"

namespace strata::checkpoint {

struct Digest::State {
  XXH3_state_t* xxh3 = XXH3_createState();  // aligned by itself
  ~State() { XXH3_freeState(xxh3); }
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh3); }
Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->xxh3, bytes.data(), bytes.size());
}

std::string Digest::text() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)XXH3_64bits_digest(state_->xxh3));
  return text;
}

std::string digest_of(const std::string& text) {
  Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.text();
}

std::string digest_of_file(const InputFile& file) {
  constexpr std::int64_t kChunk = 1 << 20;
  std::vector<std::byte> chunk(std::size_t(std::min(kChunk, file.size())));
  Digest digest;
  for (std::int64_t at = 0; at < file.size(); at += std::int64_t(chunk.size())) {
    const std::span part = std::span(chunk).first(std::size_t(std::min(kChunk, file.size() - at)));
    file.read(at, part);
    digest.add(part);
  }
  return digest.text();
}

}  // namespace strata::checkpoint
