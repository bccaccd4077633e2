#include "ops/rope.h"

#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct RopeNode final : Node {
  Var x, y;           // slots only: backward needs neither value
  kernels::Rope job;  // without x and y
  Dims heads;         // [T,H,D]

  std::string_view name() const override { return "rope"; }
  std::vector<Tensor> saved() const override { return {}; }
  void backward(Tape& tape) override {
    const Grad dx = tape.grad_into(x);
    if (!dx) return;
    kernels::Rope back = job;
    back.x = tape.grad(y).reshape(heads);
    back.y = dx.view;
    back.y.dims = heads;
    back.inverse = true;
    back.mode = dx.mode;
    tape.stream().run(back);
  }
};

}  // namespace

Var rope(Tape& tape, const Var& x, std::int64_t heads, std::int64_t begin, std::int64_t end,
         std::int64_t length, double theta, RopePairing pairing, std::int64_t start) {
  const std::int64_t tokens = x.value.dim(0), width = x.value.dim(1), dim = width / heads;
  Shapes("rope")(x.value, "x", "T H*D").bind("H*D", heads * dim);
  STRATA_CHECK(0 <= begin && begin <= end && end <= dim && (end - begin) % 2 == 0, "rope: dims [", begin,
               ", ", end, ") of heads of ", dim);
  STRATA_CHECK(tokens % length == 0, "rope: ", tokens, " tokens in sequences of ", length);
  auto node = std::make_unique<RopeNode>();
  node->heads = {tokens, heads, dim};
  node->job.begin = begin;
  node->job.end = end;
  node->job.length = length;
  node->job.start = start;
  node->job.theta = theta;
  node->job.pairing = pairing;
  const Var y = tape.output(tape.empty(x.value.dims(), x.value.dtype()));
  kernels::Rope job = node->job;
  job.x = x.value.reshape(node->heads);
  job.y = y.value.reshape(node->heads);
  tape.stream().run(job);
  node->x = {Tensor(), x.slot};
  node->y = {Tensor(), y.slot};
  tape.record(std::move(node), {y});
  return y;
}

}  // namespace strata::ops
