// Manifold-constrained hyper-connections (mHC, arXiv 2512.24880): n residual streams, mixed by coefficients
// per token.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

struct HyperParameters {
  Parameter* phi;                                 // [2n+n*n, n*D]
  Parameter *alpha_pre, *alpha_post, *alpha_res;  // [1]
  Parameter *bias_pre, *bias_post, *bias_res;     // [n], [n], [n,n]
};

// Streams x [T,n,D] -> coefficients [T, 2n+n*n] in Acc: pre | post | res (row-major, row = output stream).
Var hyper_coef(Tape& tape, const Var& x, const HyperParameters& parameters, std::int64_t sinkhorn_iters,
               double eps);

// z = sum_i pre_i x_i: [T,n,D] -> [T,D].
Var hyper_read(Tape& tape, const Var& x, const Var& coef);

// x'_i = sum_j res_ij x_j + post_i y. x null: x'_i = post_i y. `grad_dtype`: what the gradient of x' is
// summed in.
Var hyper_write(Tape& tape, const Var* x, const Var& y, const Var& coef, std::int64_t streams,
                std::optional<DType> grad_dtype = {});

// [T,D] -> n copies [T,n,D].
Var spread_streams(Tape& tape, const Var& x, std::int64_t streams, std::optional<DType> grad_dtype = {});

// scale * sum over streams: [T,n,D] -> [T,D].
Var sum_streams(Tape& tape, const Var& x, double scale);

}  // namespace strata::ops
