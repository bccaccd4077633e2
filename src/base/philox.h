// Counter-based random numbers: a value is a function of key and index alone, whatever the order or the
// thread. Philox4x32-10, Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace strata {

class Philox {
 public:
  explicit Philox(std::uint64_t key) : key_(key) {}
  // Key of a named stream: FNV-1a over the name, mixed with the seed.
  Philox(std::uint64_t seed, std::string_view name) : key_(mix(seed ^ fnv1a(name))) {}

  std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    std::array<std::uint32_t, 4> c{std::uint32_t(index), std::uint32_t(index >> 32), 0, 0};
    std::uint32_t k0 = std::uint32_t(key_), k1 = std::uint32_t(key_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
      c = {std::uint32_t(b >> 32) ^ c[1] ^ k0, std::uint32_t(b), std::uint32_t(a >> 32) ^ c[3] ^ k1,
           std::uint32_t(a)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }
  std::uint64_t bits(std::uint64_t index) const {
    const auto c = block(index);
    return std::uint64_t(c[0]) << 32 | c[1];
  }
  // Uniform in (0, 1).
  double uniform(std::uint64_t index) const { return to_unit(bits(index)); }
  // Standard normal by Box-Muller; one block a value.
  double normal(std::uint64_t index) const {
    const auto c = block(index);
    const double u = to_unit(std::uint64_t(c[0]) << 32 | c[1]), v = to_unit(std::uint64_t(c[2]) << 32 | c[3]);
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586476925286766559 * v);
  }

 private:
  static double to_unit(std::uint64_t x) { return (double(x >> 11) + 0.5) * 0x1p-53; }
  static std::uint64_t fnv1a(std::string_view s) {
    std::uint64_t h = 1469598103934665603ull;
    for (const unsigned char ch : s) h = (h ^ ch) * 1099511628211ull;
    return h;
  }
  static std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
  }
  std::uint64_t key_;
};

}  // namespace strata
