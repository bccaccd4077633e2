// Rotary position embedding, Su et al., arXiv 2104.09864.
#pragma once
#include "autograd/tape.h"
#include "kernels/jobs.h"

namespace strata::ops {

using kernels::RopePairing;

// x [T, H*D], seen as H heads of D: in every head the pairs of dims [begin, end) turn by position *
// theta^(-2i/(end - begin)), the other dims are copied. Token t is at position start + t % length.
Var rope(Tape& tape, const Var& x, std::int64_t heads, std::int64_t begin, std::int64_t end,
         std::int64_t length, double theta, RopePairing pairing, std::int64_t start = 0);

}  // namespace strata::ops
