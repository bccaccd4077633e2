#include "nn/history.h"

#include <algorithm>

#include "kernels/jobs.h"

namespace strata::nn {

Var History::last(Tape& tape, const Parameter& reader, const Var& x, std::int64_t reach) {
  STRATA_CHECK(!tape.recording(), "a pass with earlier tokens has no backward");
  const std::int64_t T = x.value.dim(0), past = std::min(reach, tokens_), until = tokens_ + T;
  STRATA_CHECK(until <= capacity_, "token ", until, " of a history with room for ", capacity_);
  Kept& k = kept_[&reader];
  if (k.until != until) {
    STRATA_CHECK(k.until == tokens_, reader.name, ": rows up to token ", k.until, " are known, not ",
                 tokens_);
    const auto copy = [&](const Tensor& from, const Tensor& to) {
      tape.stream().run(kernels::Copy{.x = from, .y = to});
    };
    if (!k.rows.defined() || k.used + T > k.rows.dim(0)) {
      const std::int64_t room = reach < capacity_ ? past + T : capacity_;
      const Tensor rows(tape.device(), {room, x.value.dim(1)}, x.value.dtype(), device::Purpose::Data);
      if (past > 0) copy(k.rows.slice(k.used - past, k.used), rows.slice(0, past));
      k.rows = rows;
      k.used = past;
    }
    copy(x.value, k.rows.slice(k.used, k.used + T));
    k.used += T;
    k.until = until;
  }
  return tape.constant(k.rows.slice(k.used - T - past, k.used));
}

std::int64_t History::bytes() const {
  std::int64_t total = 0;
  for (const auto& [reader, k] : kept_) total += k.rows.bytes();
  return total;
}

}  // namespace strata::nn
