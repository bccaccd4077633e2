// The dense feed-forward part: down(silu(gate x) * up x).
#pragma once
#include <string>

#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::nn {

class Mlp {
 public:
  // `prefix` such as "model.layers.0.mlp". gate_proj and up_proj are one stacked parameter, published as two.
  Mlp(ParameterStore& store, const std::string& prefix, std::int64_t hidden_size, std::int64_t width,
      double init_std);

  Var forward(Tape& tape, const Var& x) const { return down(tape, hidden(tape, x)); }  // [T,D] -> [T,D]
  // Its two halves: [T,D] -> [T,width], and back.
  Var hidden(Tape& tape, const Var& x) const;
  Var down(Tape& tape, const Var& hidden) const;

 private:
  Parameter *gate_up_, *down_;
};

}  // namespace strata::nn
