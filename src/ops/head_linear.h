// A matrix for each head, forward only: what latent attention needs to read its cache as it is.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

// Rows [begin, end) of every head of a matrix [H*G, R].
struct HeadRows {
  std::int64_t heads = 0, begin = 0, end = 0;
};

// x [T, H*(end-begin+P)] -> [T, H*(R+P)], every head times its rows of w; the P dims behind are copied.
Var head_linear(Tape& tape, const Var& x, Parameter& w, const HeadRows& rows);
// x [T, H*R] -> [T, H*(end-begin)], every head times its rows of w transposed.
Var head_linear_transposed(Tape& tape, const Var& x, Parameter& w, const HeadRows& rows);

}  // namespace strata::ops
