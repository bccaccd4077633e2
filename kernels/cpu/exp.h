// exp in a form that compilers turn into vector code, and the sigmoid on top of it.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace strata::kernels {

inline double fast_exp(double x) { return std::exp(x); }

// Within 2 ulp: 2^n e^r with |r| <= ln(2)/2, e^r by the polynomial of Cephes' expf. Zero below -87; NaN stays
// NaN.
inline float fast_exp(float x) {
  const float low = -87.0f, high = 88.7228f;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  float y = x > high ? high : x;
  y = y < low ? low : y;
  const float shifted = y * 1.44269504088896341f + magic, n = shifted - magic;
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const auto power = std::bit_cast<std::uint32_t>(shifted) << 23;
  const float e = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + power);
  const float finite = x > high ? INFINITY : e;
  const float number = x < low ? 0.0f : finite;
  return x != x ? x : number;  // the sum of bits above may turn a NaN into a number
}

template <class A>
inline A sigmoid(A x) {
  return A(1) / (A(1) + fast_exp(-x));
}

}  // namespace strata::kernels
