#include "kernels/emulate/schedule.h"

#include <algorithm>
#include <bit>

namespace strata::emulate {

void ReadyList::begin(int threads, const Schedule& schedule) {
  threads_ = threads;
  shuffled_ = schedule.order == Order::Shuffled;
  random_ = Random(schedule.seed);
  bits_.fill(0);
  const bool down = schedule.order == Order::Descending;
  for (int t = 0; t < threads; ++t) {
    place_[t] = std::int16_t(down ? threads - 1 - t : t);
    thread_[place_[t]] = std::int16_t(t);
  }
  deal();
}

void ReadyList::deal() {
  if (!shuffled_) return;
  std::shuffle(thread_.begin(), thread_.begin() + threads_, random_);
  for (int place = 0; place < threads_; ++place) place_[thread_[place]] = std::int16_t(place);
}

int ReadyList::first() const {
  for (int word = 0; word * 64 < threads_; ++word)
    if (bits_[word]) return thread_[word * 64 + std::countr_zero(bits_[word])];
  return -1;
}

}  // namespace strata::emulate
