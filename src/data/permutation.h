// A random permutation of 0..n-1 that needs no memory: x = left b + right, left in [0, a), right in [0, b),
// a b >= n, and each round adds to one half a random function of the other (a Feistel network; Luby and
// Rackoff 1988). What falls beyond n goes through again, until it falls within.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace strata::data {

class Permutation {
 public:
  // n of at least 1.
  Permutation(std::int64_t n, const Philox& random)
      : random_(random), n_(std::uint64_t(n)), a_(std::uint64_t(std::sqrt(double(n))) + 1) {
    b_ = (n_ - 1) / a_ + 1;
  }

  std::int64_t operator()(std::int64_t i) const {
    std::uint64_t x = std::uint64_t(i);
    do {
      x = once(x);
    } while (x >= n_);
    return std::int64_t(x);
  }

 private:
  std::uint64_t once(std::uint64_t x) const {
    constexpr std::uint64_t kRounds = 6;  // even
    std::uint64_t left = x / b_, right = x % b_;
    for (std::uint64_t round = 0; round < kRounds; round += 2) {
      left = (left + random_.bits(round << 56 | right) % a_) % a_;
      right = (right + random_.bits((round + 1) << 56 | left) % b_) % b_;
    }
    return left * b_ + right;
  }

  Philox random_;
  std::uint64_t n_, a_, b_;
};

}  // namespace strata::data
