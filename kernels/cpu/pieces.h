// Working memory of a task, laid out by one constructor that runs twice: to measure, and to hand out.
#pragma once
#include <cstdint>

namespace strata::kernels {

// Hands out aligned pieces of one allocation; without a base it only adds up the sizes.
template <class A>
class Pieces {
 public:
  explicit Pieces(A* base = nullptr) : base_(base) {}
  A* take(std::int64_t count) {
    A* p = base_ ? base_ + used_ : nullptr;
    used_ += (count + 15) / 16 * 16;
    return p;
  }
  std::int64_t used() const { return used_; }

 private:
  A* base_;
  std::int64_t used_ = 0;
};

}  // namespace strata::kernels
