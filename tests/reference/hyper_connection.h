// Manifold-constrained hyper-connections (mHC, arXiv 2512.24880): coefficients, mixing in, writing back,
// read-out.
#pragma once

#include "reference/array.h"

namespace strata::reference {

/// Rows of phi: n for pre, n for post, n² for res (row-major).
struct HyperParameters {
  Array phi;  ///< [n² + 2n, n·D]
  double alpha_pre = 0.0, alpha_post = 0.0, alpha_res = 0.0;
  Array bias_pre, bias_post;  ///< [n]
  Array bias_res;             ///< [n, n]
};

struct HyperCoefficients {
  Array pre;   ///< [T, n], σ
  Array post;  ///< [T, n], 2σ
  Array res;   ///< [T, n, n], doubly stochastic; row = output stream
};

/// M = exp(a − column max); `iterations` times: divide by column sums, then by row sums. a [T, n, n] -> same.
Array sinkhorn(const Array& a, int64_t iterations);

/// x [T, n, D]; the coefficients come from phi · RMSNorm(flatten x), the norm without weight.
HyperCoefficients hyper_coefficients(const Array& x, const HyperParameters& parameters,
                                     int64_t sinkhorn_iters, double eps);

/// H_pre X: x [T, n, D], pre [T, n] -> [T, D].
Array hyper_pre_mix(const Array& x, const Array& pre);

/// H_postᵀ y: y [T, D], post [T, n] -> [T, n, D].
Array hyper_spread(const Array& y, const Array& post);

/// H_res X + H_postᵀ y: x [T, n, D], y [T, D] -> [T, n, D].
Array hyper_write(const Array& x, const Array& y, const Array& res, const Array& post);

/// Gates of the head mix, σ(alpha · phi · RMSNorm(flatten x) + bias): phi [n, n·D], bias [n] -> [T, n].
/// The read-out itself is hyper_pre_mix(x, gates).
Array head_mix_gates(const Array& x, const Array& phi, double alpha, const Array& bias, double eps);

/// n copies of h [T, D] -> [T, n, D].
Array copy_to_streams(const Array& h, int64_t n);

}  // namespace strata::reference
