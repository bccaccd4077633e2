#include "ops/head_linear.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

Var run(Tape& tape, const Var& x, Parameter& w, const HeadRows& r, bool transposed) {
  STRATA_CHECK(!tape.recording(), "head_linear: no backward");
  const std::int64_t T = x.value.dim(0), H = r.heads, rank = w.dims[1], group = w.dims[0] / H;
  const std::int64_t count = r.end - r.begin, in = transposed ? rank : count, out = transposed ? count : rank;
  const std::int64_t width = x.value.dim(1) / H, rest = width - in;
  Shapes("head_linear")
      .bind("H*I", H * width)
      .bind("H*G", H * group)(x.value, "x", "T H*I")(w.value, "w", "H*G R");
  STRATA_CHECK(rest >= 0 && 0 <= r.begin && r.begin < r.end && r.end <= group, "head_linear: rows [", r.begin,
               ", ", r.end, ") of ", group, " for heads of ", width);
  const Var y = tape.output(tape.empty({T, H * (out + rest)}, x.value.dtype()));
  tape.stream().run(kernels::HeadLinear{.x = x.value.reshape({T, H, width}),
                                        .w = w.value.reshape({H, group, rank}),
                                        .begin = r.begin,
                                        .end = r.end,
                                        .w_transposed = transposed,
                                        .y = y.value.reshape({T, H, out + rest})});
  return y;
}

}  // namespace

Var head_linear(Tape& tape, const Var& x, Parameter& w, const HeadRows& rows) {
  return run(tape, x, w, rows, false);
}

Var head_linear_transposed(Tape& tape, const Var& x, Parameter& w, const HeadRows& rows) {
  return run(tape, x, w, rows, true);
}

}  // namespace strata::ops
