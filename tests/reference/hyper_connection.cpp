// h = H_pre X, then X ← H_res X + H_postᵀ y, with H_res made doubly stochastic by Sinkhorn's iteration.
#include "reference/hyper_connection.h"

#include <algorithm>
#include <cmath>

#include "reference/linear.h"
#include "reference/rms_norm.h"
#include "reference/swiglu.h"

namespace strata::reference {

Array sinkhorn(const Array& a, int64_t iterations) {
  const int64_t tokens = a.dim(0), n = a.dim(1);
  Array m(a.shape);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      double highest = a(t, 0, j);
      for (int64_t i = 0; i < n; ++i) highest = std::max(highest, a(t, i, j));
      for (int64_t i = 0; i < n; ++i) m(t, i, j) = std::exp(a(t, i, j) - highest);
    }
    for (int64_t round = 0; round < iterations; ++round) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; ++i) sum += m(t, i, j);
        for (int64_t i = 0; i < n; ++i) m(t, i, j) /= sum;
      }
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; ++j) sum += m(t, i, j);
        for (int64_t j = 0; j < n; ++j) m(t, i, j) /= sum;
      }
    }
  }
  return m;
}

HyperCoefficients hyper_coefficients(const Array& x, const HyperParameters& parameters,
                                     int64_t sinkhorn_iters, double eps) {
  const int64_t tokens = x.dim(0), n = x.dim(1), width = x.dim(2);
  require(parameters.phi.dim(0) == n * n + 2 * n, "hyper_coefficients: phi has n² + 2n rows");
  const Array y = linear(rms_norm(x.reshaped({tokens, n * width}), {}, eps), parameters.phi);
  HyperCoefficients result{Array({tokens, n}), Array({tokens, n}), {}};
  Array res({tokens, n, n});
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < n; ++i) {
      result.pre(t, i) = sigmoid(parameters.alpha_pre * y(t, i) + parameters.bias_pre(i));
      result.post(t, i) = 2.0 * sigmoid(parameters.alpha_post * y(t, n + i) + parameters.bias_post(i));
      for (int64_t j = 0; j < n; ++j) {
        res(t, i, j) = parameters.alpha_res * y(t, 2 * n + i * n + j) + parameters.bias_res(i, j);
      }
    }
  }
  result.res = sinkhorn(res, sinkhorn_iters);
  return result;
}

Array hyper_pre_mix(const Array& x, const Array& pre) {
  Array h({x.dim(0), x.dim(2)});
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t i = 0; i < x.dim(1); ++i) {
      for (int64_t c = 0; c < x.dim(2); ++c) h(t, c) += pre(t, i) * x(t, i, c);
    }
  }
  return h;
}

Array hyper_spread(const Array& y, const Array& post) {
  Array x({y.dim(0), post.dim(1), y.dim(1)});
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t i = 0; i < x.dim(1); ++i) {
      for (int64_t c = 0; c < x.dim(2); ++c) x(t, i, c) = post(t, i) * y(t, c);
    }
  }
  return x;
}

Array hyper_write(const Array& x, const Array& y, const Array& res, const Array& post) {
  Array next = hyper_spread(y, post);
  for (int64_t t = 0; t < x.dim(0); ++t) {
    for (int64_t i = 0; i < x.dim(1); ++i) {
      for (int64_t j = 0; j < x.dim(1); ++j) {
        for (int64_t c = 0; c < x.dim(2); ++c) next(t, i, c) += res(t, i, j) * x(t, j, c);
      }
    }
  }
  return next;
}

Array head_mix_gates(const Array& x, const Array& phi, double alpha, const Array& bias, double eps) {
  const int64_t tokens = x.dim(0), n = x.dim(1);
  Array gates = linear(rms_norm(x.reshaped({tokens, n * x.dim(2)}), {}, eps), phi);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < n; ++i) gates(t, i) = sigmoid(alpha * gates(t, i) + bias(i));
  }
  return gates;
}

Array copy_to_streams(const Array& h, int64_t n) {
  Array ones({h.dim(0), n});
  for (double& one : ones.data) one = 1.0;
  return hyper_spread(h, ones);
}

}  // namespace strata::reference
