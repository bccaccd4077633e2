// The compressed key-value row of multi-head latent attention. DeepSeek-V2, arXiv 2405.04434, eq. 9-19.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

struct MlaLatent {
  Var latent;  // [T,R], can be released
  Var key;     // [T,P]
};

// x [T,R+P], weight [R]: latent = RMSNorm_w(x[:, :R]), key = x[:, R:] turned by position (interleaved pairs,
// P even), one key for all heads. Token t is at position start + t % length; a start other than 0 has
// no backward.
MlaLatent mla_latent(Tape& tape, const Var& x, Parameter& weight, double eps, double theta,
                     std::int64_t length, std::int64_t start = 0);

}  // namespace strata::ops
