#include "nn/mlp.h"

#include "ops/linear.h"
#include "ops/swiglu.h"

namespace strata::nn {

Mlp::Mlp(ParameterStore& store, const std::string& prefix, std::int64_t D, std::int64_t F, double std) {
  gate_up_ = &store.add(
      {.name = prefix + ".gate_up",
       .dims = {2 * F, D},
       .init = Init::normal(std),
       .slices = {{prefix + ".gate_proj.weight", 0, {F, D}}, {prefix + ".up_proj.weight", F * D, {F, D}}}});
  down_ = &store.add({.name = prefix + ".down_proj.weight", .dims = {D, F}, .init = Init::normal(std)});
}

Var Mlp::hidden(Tape& tape, const Var& x) const { return ops::swiglu(tape, ops::linear(tape, x, *gate_up_)); }

Var Mlp::down(Tape& tape, const Var& hidden) const {
  const Var y = ops::linear(tape, hidden, *down_);
  tape.release({hidden}, Recompute::Activation);
  return y;
}

}  // namespace strata::nn
