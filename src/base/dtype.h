// Element types, and the step from a run-time type to a template argument.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/bfloat16.h"
#include "base/error.h"

namespace strata {

enum class DType : std::uint8_t { Float32, Float64, BFloat16, Int32, Int64 };

constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::Float64:
    case DType::Int64:
      return 8;
    case DType::BFloat16:
      return 2;
    default:
      return 4;
  }
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::Float32:
      return "float32";
    case DType::Float64:
      return "float64";
    case DType::BFloat16:
      return "bfloat16";
    case DType::Int32:
      return "int32";
    default:
      return "int64";
  }
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::Float32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::Float64;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return DType::BFloat16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::Int32;
  else {
    static_assert(std::is_same_v<T, std::int64_t>);
    return DType::Int64;
  }
}

// The type that sums over T are kept in: float64 mode is float64 everywhere, all else accumulates in float32.
template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
constexpr DType acc_of(DType type) { return type == DType::Float64 ? DType::Float64 : DType::Float32; }

// Calls f.template operator()<T>() with the C++ type of a floating-point dtype.
template <class F>
decltype(auto) for_float(DType type, F&& f) {
  switch (type) {
    case DType::Float32:
      return f.template operator()<float>();
    case DType::Float64:
      return f.template operator()<double>();
    case DType::BFloat16:
      return f.template operator()<bfloat16>();
    default:
      throw Error(concat("expected a floating-point tensor, got ", name_of(type)));
  }
}

// The same for accumulator types only (float32, float64).
template <class F>
decltype(auto) for_acc(DType type, F&& f) {
  switch (type) {
    case DType::Float32:
      return f.template operator()<float>();
    case DType::Float64:
      return f.template operator()<double>();
    default:
      throw Error(concat("expected float32 or float64, got ", name_of(type)));
  }
}

}  // namespace strata
