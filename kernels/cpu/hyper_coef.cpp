// Mixing coefficients of manifold-constrained hyper-connections and their gradients. The Sinkhorn iterates
// are computed again in backward and undone in reverse: for a row step Y = M / s, dM_ij = (dY_ij - sum_k
// dY_ik Y_ik) / s_i; the column step likewise. The column maxima cancel in the first column step and have no
// gradient.
#include <cmath>
#include <vector>

#include "kernels/cpu/exp.h"
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class A>
void start(const A* logits, std::int64_t n, A* m) {
  for (std::int64_t j = 0; j < n; ++j) {
    A high = logits[j];
    for (std::int64_t i = 1; i < n; ++i) high = std::max(high, logits[i * n + j]);
    for (std::int64_t i = 0; i < n; ++i) m[i * n + j] = std::exp(logits[i * n + j] - high);
  }
}

// One normalisation of `from` into `to`: over rows (stride along a row 1) or columns. sums [n].
template <class A>
void normalize(const A* from, std::int64_t n, bool rows, A* sums, A* to) {
  const std::int64_t line = rows ? n : 1, step = rows ? 1 : n;
  for (std::int64_t a = 0; a < n; ++a) {
    A sum = 0;
    for (std::int64_t b = 0; b < n; ++b) sum += from[a * line + b * step];
    sums[a] = sum;
    for (std::int64_t b = 0; b < n; ++b) to[a * line + b * step] = from[a * line + b * step] / sum;
  }
}

// d: gradient of y = normalize(m), replaced by that of m.
template <class A>
void undo(const A* y, std::int64_t n, bool rows, const A* sums, A* d) {
  const std::int64_t line = rows ? n : 1, step = rows ? 1 : n;
  for (std::int64_t a = 0; a < n; ++a) {
    A dot = 0;
    for (std::int64_t b = 0; b < n; ++b) dot += d[a * line + b * step] * y[a * line + b * step];
    for (std::int64_t b = 0; b < n; ++b) d[a * line + b * step] = (d[a * line + b * step] - dot) / sums[a];
  }
}

template <class A>
struct Weights {
  A alpha_pre, alpha_post, alpha_res;
  const A *bias_pre, *bias_post, *bias_res;
  explicit Weights(const HyperWeights& w)
      : alpha_pre(*w.alpha_pre.as<A>()),
        alpha_post(*w.alpha_post.as<A>()),
        alpha_res(*w.alpha_res.as<A>()),
        bias_pre(w.bias_pre.as<A>()),
        bias_post(w.bias_post.as<A>()),
        bias_res(w.bias_res.as<A>()) {}
};

// The Sinkhorn iterates of one token: matrix 0 is the start, 2k+1 follows the column step, 2k+2 the row step.
template <class A>
struct Iterates {
  std::int64_t n, steps;
  std::vector<A> matrices, sums, logits;
  Iterates(std::int64_t n_, std::int64_t iterations)
      : n(n_), steps(2 * iterations), matrices((steps + 1) * n * n), sums(steps * n), logits(n * n) {}
  A* matrix(std::int64_t k) { return matrices.data() + k * n * n; }
  void run(const A* y, const Weights<A>& w) {
    for (std::int64_t i = 0; i < n * n; ++i) logits[i] = w.alpha_res * y[i] + w.bias_res[i];
    start(logits.data(), n, matrix(0));
    for (std::int64_t k = 0; k < steps; ++k) normalize(matrix(k), n, k % 2 == 1, &sums[k * n], matrix(k + 1));
  }
  void undo_all(A* d) {
    for (std::int64_t k = steps - 1; k >= 0; --k) undo(matrix(k + 1), n, k % 2 == 1, &sums[k * n], d);
    for (std::int64_t i = 0; i < n * n; ++i) d[i] *= matrix(0)[i];
  }
};

template <class A>
void forward(const HyperCoefForward& job) {
  const std::int64_t n = job.streams, C = 2 * n + n * n;
  const Weights<A> w(job.weights);
  const A *raw = job.raw.as<A>(), *rstd = job.rstd.as<A>();
  A* coef = job.coef.as<A>();
  const Chunks chunks(job.raw.dims[0]);
  parallel_for(chunks.count, [&](std::int64_t c) {
    Iterates<A> sinkhorn(n, job.iterations);
    std::vector<A> y(C);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      A* out = coef + t * C;
      for (std::int64_t i = 0; i < C; ++i) y[i] = raw[t * C + i] * rstd[t];
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = sigmoid(w.alpha_pre * y[i] + w.bias_pre[i]);
        out[n + i] = 2 * sigmoid(w.alpha_post * y[n + i] + w.bias_post[i]);
      }
      sinkhorn.run(&y[2 * n], w);
      std::copy_n(sinkhorn.matrix(sinkhorn.steps), n * n, out + 2 * n);
    }
  });
}

// Gradients of the 2n + n*n logits alpha * y + bias of one token.
template <class A>
void logit_gradients(const A* dcoef, const A* coef, const A* y, const Weights<A>& w, Iterates<A>& sinkhorn,
                     A* d) {
  const std::int64_t n = sinkhorn.n;
  for (std::int64_t i = 0; i < n; ++i) {
    d[i] = dcoef[i] * coef[i] * (1 - coef[i]);
    d[n + i] = dcoef[n + i] * coef[n + i] * (1 - coef[n + i] / 2);
  }
  std::copy_n(dcoef + 2 * n, n * n, d + 2 * n);
  sinkhorn.run(y + 2 * n, w);
  sinkhorn.undo_all(d + 2 * n);
}

template <class A>
void backward(CpuStream& stream, const HyperCoefBackward& job) {
  const std::int64_t n = job.streams, C = 2 * n + n * n, width = 3 + C;
  const Weights<A> w(job.weights);
  const A *raw = job.raw.as<A>(), *rstd = job.rstd.as<A>(), *coef = job.coef.as<A>(),
          *dcoef = job.dcoef.as<A>();
  A *dnormed = job.dnormed.as<A>(), *draw = job.draw.as<A>();
  const Chunks chunks(job.raw.dims[0]);
  A* partial = stream.scratch<A>((chunks.count + 1) * width);  // alphas, then biases
  parallel_for(chunks.count, [&](std::int64_t c) {
    A* mine = partial + c * width;
    std::fill(mine, mine + width, A(0));
    Iterates<A> sinkhorn(n, job.iterations);
    std::vector<A> y(C), d(C);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      for (std::int64_t i = 0; i < C; ++i) y[i] = raw[t * C + i] * rstd[t];
      logit_gradients(dcoef + t * C, coef + t * C, y.data(), w, sinkhorn, d.data());
      for (std::int64_t i = 0; i < C; ++i) {
        const int part = i < n ? 0 : i < 2 * n ? 1 : 2;
        mine[part] += d[i] * y[i];
        mine[3 + i] += d[i];
        dnormed[t * C + i] = d[i] * (part == 0 ? w.alpha_pre : part == 1 ? w.alpha_post : w.alpha_res);
        draw[t * C + i] = dnormed[t * C + i] * rstd[t];
      }
    }
  });
  A* sum = partial + chunks.count * width;
  std::fill(sum, sum + width, A(0));
  add_partials(partial, chunks.count, width, sum);
  const auto add = [](const View& to, const A* from) {
    if (A* out = to.as<A>())
      for (std::int64_t i = 0; i < to.numel(); ++i) out[i] += from[i];
  };
  add(job.dalpha_pre, sum);
  add(job.dalpha_post, sum + 1);
  add(job.dalpha_res, sum + 2);
  add(job.dbias_pre, sum + 3);
  add(job.dbias_post, sum + 3 + n);
  add(job.dbias_res, sum + 3 + 2 * n);
}

}  // namespace

void run(CpuStream&, const HyperCoefForward& job) {
  for_acc(job.raw.dtype, [&]<class A>() { forward<A>(job); });
}

void run(CpuStream& stream, const HyperCoefBackward& job) {
  for_acc(job.raw.dtype, [&]<class A>() { backward<A>(stream, job); });
}

}  // namespace strata::kernels
