// bfloat16: the upper half of a float, rounded to nearest even. constexpr, so that nvcc takes it in kernels
// as well.
#pragma once
#include <bit>
#include <cstdint>

namespace strata {

struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  constexpr bfloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? std::uint16_t(0x7fff) : std::uint16_t((u + 0x7fffu + (u >> 16 & 1)) >> 16);
  }
  constexpr operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
};

static_assert(sizeof(bfloat16) == 2);

}  // namespace strata
