#include "data/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace strata::data {

struct Fingerprint::State {
  XXH3_state_t hash;
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
Fingerprint::~Fingerprint() = default;

void Fingerprint::add(std::int64_t value) { XXH3_128bits_update(&state_->hash, &value, sizeof value); }

void Fingerprint::add(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 1 << 20, kBlocks = 1024;
  add(std::int64_t(bytes.size()));
  if (bytes.empty()) return;
  if (bytes.size() <= kBlock * kBlocks) {
    XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
    return;
  }
  const std::size_t last = bytes.size() - kBlock;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const auto at = std::size_t(static_cast<unsigned __int128>(last) * i / (kBlocks - 1));
    XXH3_128bits_update(&state_->hash, bytes.data() + at, kBlock);
  }
}

void Fingerprint::add(const TokenFile& file) {
  add(std::int64_t(file.type()));
  add(file.documents());
  add(file.index_bytes());
  add(file.token_bytes());
}

std::string Fingerprint::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace strata::data
