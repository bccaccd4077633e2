// Rotary position embedding, Su et al., arXiv 2104.09864: pair i of `width` dims turns by position *
// theta^(-2i/width). A position is 64 a + b, so that the addition theorem makes the table from S/64 + 64 rows
// of sines and cosines. It begins at the last whole 64 before the first position.
#pragma once
#include <cmath>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {

// cos and sin of positions start .. start + length - 1, in memory that the caller lends.
template <class A>
class RotationTable {
 public:
  // Doubles of memory it takes.
  static std::int64_t size(std::int64_t length, std::int64_t width, std::int64_t start = 0) {
    length += start % kStep;
    return (rows(length) + length) * 2 * (width / 2);
  }
  RotationTable(double* memory, std::int64_t length, std::int64_t width, double theta, bool inverse,
                std::int64_t start = 0);

  // Of position start + t.
  const A* cosine(std::int64_t t) const { return cosine_ + (skipped_ + t) * pairs_; }
  const A* sine(std::int64_t t) const { return sine_ + (skipped_ + t) * pairs_; }
  std::int64_t pairs() const { return pairs_; }

 private:
  static constexpr std::int64_t kStep = 64;
  static std::int64_t rows(std::int64_t length) { return kStep + (length + kStep - 1) / kStep; }

  std::int64_t pairs_, skipped_;
  A *cosine_, *sine_;
};

template <class A>
RotationTable<A>::RotationTable(double* memory, std::int64_t length, std::int64_t width, double theta,
                                bool inverse, std::int64_t start)
    : pairs_(width / 2), skipped_(start % kStep) {
  const std::int64_t first = start - skipped_;
  length += skipped_;
  double *const c = memory, *const s = c + rows(length) * pairs_;
  cosine_ = reinterpret_cast<A*>(s + rows(length) * pairs_);
  sine_ = cosine_ + length * pairs_;
  std::vector<double> speed(pairs_);
  for (std::int64_t i = 0; i < pairs_; ++i) speed[i] = std::pow(theta, -2.0 * double(i) / double(width));
  parallel_for(rows(length), [&](std::int64_t r) {
    const double position = r < kStep ? double(r) : double(first + (r - kStep) * kStep);
    for (std::int64_t i = 0; i < pairs_; ++i) {
      c[r * pairs_ + i] = std::cos(position * speed[i]);
      s[r * pairs_ + i] = std::sin(position * speed[i]);
    }
  });
  const double sign = inverse ? -1 : 1;
  parallel_for(length, [&](std::int64_t t) {
    const std::int64_t a = (kStep + t / kStep) * pairs_, b = t % kStep * pairs_;
    for (std::int64_t i = 0; i < pairs_; ++i) {
      cosine_[t * pairs_ + i] = A(c[a + i] * c[b + i] - s[a + i] * s[b + i]);
      sine_[t * pairs_ + i] = A(sign * (s[a + i] * c[b + i] + c[a + i] * s[b + i]));
    }
  });
}

// y (+)= x turned, for one row of `2 * pairs` dims. y may be x.
template <RopePairing kPairing, class T, class A>
void rotate(std::int64_t pairs, const T* x, const A* cosine, const A* sine, T* y, Write mode) {
  constexpr std::int64_t kStride = kPairing == RopePairing::Interleaved ? 2 : 1;
  const std::int64_t partner = kPairing == RopePairing::Interleaved ? 1 : pairs;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const A a = A(x[kStride * i]), b = A(x[kStride * i + partner]);
    put(y[kStride * i], a * cosine[i] - b * sine[i], mode);
    put(y[kStride * i + partner], a * sine[i] + b * cosine[i], mode);
  }
}

}  // namespace strata::kernels
