// The integer types of token ids on disk, little-endian.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace strata::data {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

enum class ElementType { U8, I8, I16, I32, I64, U16, U32 };

// The bytes of one element.
constexpr std::int64_t width(ElementType t) {
  switch (t) {
    case ElementType::U8:
    case ElementType::I8:
      return 1;
    case ElementType::I16:
    case ElementType::U16:
      return 2;
    case ElementType::I64:
      return 8;
    default:
      return 4;
  }
}

// Calls f with a value of the C++ type.
template <class F>
decltype(auto) with_type(ElementType t, F&& f) {
  switch (t) {
    case ElementType::U8:
      return f(std::uint8_t{});
    case ElementType::I8:
      return f(std::int8_t{});
    case ElementType::I16:
      return f(std::int16_t{});
    case ElementType::U16:
      return f(std::uint16_t{});
    case ElementType::I64:
      return f(std::int64_t{});
    case ElementType::U32:
      return f(std::uint32_t{});
    default:
      return f(std::int32_t{});
  }
}

// A value at any address.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace strata::data
