// Who runs first. Correct kernels give the same bits under every schedule; a forgotten barrier does not.
// A schedule is a priority: the first thread of the order that can run, runs. So under Ascending the first
// warp runs ahead to the block barrier before the second starts, and under Descending it comes last.
#pragma once
#include <array>
#include <cstdint>

#include "kernels/emulate/shape.h"

namespace strata::emulate {

enum class Order { Ascending, Descending, Shuffled };

struct Schedule {
  Order order = Order::Ascending;
  std::uint64_t seed = 0;  // of Shuffled
};

// SplitMix64, Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
class Random {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type(0); }
  result_type operator()() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }

 private:
  std::uint64_t state_;
};

// The threads of a block that can run, by priority.
class ReadyList {
 public:
  // Nobody is ready; priorities as the schedule says.
  void begin(int threads, const Schedule& schedule);
  // Draws new priorities if the order is Shuffled. Nobody may be ready.
  void deal();
  void add(int thread) {
    const int place = place_[thread];
    bits_[place / 64] |= std::uint64_t(1) << place % 64;
  }
  // The thread that runs next, or -1.
  int first() const;
  void remove(int thread) {
    const int place = place_[thread];
    bits_[place / 64] &= ~(std::uint64_t(1) << place % 64);
  }

 private:
  int threads_ = 0;
  bool shuffled_ = false;
  Random random_{0};
  std::array<std::uint64_t, kMaxThreads / 64> bits_{};  // by place
  std::array<std::int16_t, kMaxThreads> place_{};       // of a thread
  std::array<std::int16_t, kMaxThreads> thread_{};      // at a place
};

}  // namespace strata::emulate
