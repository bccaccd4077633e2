// What incremental decoding remembers of earlier tokens: rows that attention and convolutions read again, one
// list for each reader, whose parameter is the key. Forward only, one sequence, no documents.
#pragma once
#include <map>

#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::nn {

class History {
 public:
  // Room for `capacity` tokens in all.
  explicit History(std::int64_t capacity) : capacity_(capacity) {}

  std::int64_t capacity() const { return capacity_; }
  std::int64_t tokens() const { return tokens_; }  // that came before those at hand
  // x [T,W], the rows of the T tokens at hand -> all rows that this reader was given so far, or the last
  // `reach` before x and x. Asked again for the same tokens it answers the same.
  Var all(Tape& tape, const Parameter& reader, const Var& x) { return last(tape, reader, x, capacity_); }
  Var last(Tape& tape, const Parameter& reader, const Var& x, std::int64_t reach);
  // The tokens at hand become earlier ones.
  void advance(std::int64_t tokens) { tokens_ += tokens; }
  std::int64_t bytes() const;

 private:
  struct Kept {
    Tensor rows;             // room, [room,W]
    std::int64_t used = 0;   // rows of it
    std::int64_t until = 0;  // the position behind the last one
  };

  std::int64_t capacity_, tokens_ = 0;
  std::map<const Parameter*, Kept> kept_;
};

}  // namespace strata::nn
