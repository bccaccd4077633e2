#include "ops/mla_latent.h"

#include "kernels/jobs.h"
#include "tensor/shapes.h"

namespace strata::ops {
namespace {

struct MlaLatentNode final : Node {
  Var x, latent, key;
  Parameter* weight;
  Tensor rstd;
  double eps, theta;
  std::int64_t length, start;

  std::string_view name() const override { return "mla_latent"; }
  std::vector<Tensor> saved() const override { return {x.value, rstd}; }
  // The key is written again, too, with the same bits.
  void refill(Tape& tape) override { forward(tape); }
  void forward(Tape& tape) const {
    tape.stream().run(kernels::MlaLatentForward{.x = x.value,
                                                .weight = weight->value,
                                                .eps = eps,
                                                .theta = theta,
                                                .length = length,
                                                .start = start,
                                                .latent = latent.value,
                                                .key = key.value,
                                                .rstd = rstd});
  }
  void backward(Tape& tape) override {
    tape.stream().run(kernels::MlaLatentBackward{.dlatent = tape.grad(latent),
                                                 .dkey = tape.grad(key),
                                                 .x = x.value,
                                                 .weight = weight->value,
                                                 .rstd = rstd,
                                                 .theta = theta,
                                                 .length = length,
                                                 .dx = tape.grad_into(x),
                                                 .dweight = weight->grad});
  }
};

}  // namespace

MlaLatent mla_latent(Tape& tape, const Var& x, Parameter& weight, double eps, double theta,
                     std::int64_t length, std::int64_t start) {
  Shapes s("mla_latent");
  s(x.value, "x", "T R+P")(weight.value, "weight", "R");
  const std::int64_t tokens = s["T"], rank = s["R"], width = s["R+P"] - rank;
  STRATA_CHECK(width >= 0 && width % 2 == 0, "mla_latent: ", width, " dims to turn");
  STRATA_CHECK(tokens % length == 0, "mla_latent: ", tokens, " tokens in sequences of ", length);
  STRATA_CHECK(start == 0 || !tape.recording(), "mla_latent: no backward from position ", start);
  auto node = std::make_unique<MlaLatentNode>();
  node->x = x;
  node->latent = tape.output(tape.empty({tokens, rank}, x.value.dtype()));
  node->key = tape.output(tape.empty({tokens, width}, x.value.dtype()));
  node->weight = &weight;
  node->rstd = tape.empty({tokens}, acc_of(x.value.dtype()));
  node->eps = eps;
  node->theta = theta;
  node->length = length;
  node->start = start;
  node->forward(tape);
  const MlaLatent y{node->latent, node->key};
  tape.record(std::move(node), {y.latent, y.key});
  return y;
}

}  // namespace strata::ops
