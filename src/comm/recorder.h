// Sees what a rank communicates, for a profile of it.
#pragma once
#include <chrono>
#include <cstdint>

#include "comm/world.h"

namespace strata::comm {

class Recorder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // An operation that has ended without error.
  struct Done {
    std::int64_t number;          // of this rank's operations
    const Waiting& operation;     // who, what and where
    int peer;                     // the other member of a message; of a collective, any
    std::int64_t sent, received;  // bytes, of a collective over all its messages
    Time begin, end;
  };
  virtual ~Recorder() = default;
  // Both are called under one lock, on any thread, and must not call back. Each operation once; then, if the
  // rank stood still for it, how long.
  virtual void ended(const Done& done) = 0;
  virtual void waited(std::int64_t number, Time begin, Time end) = 0;
};

}  // namespace strata::comm
