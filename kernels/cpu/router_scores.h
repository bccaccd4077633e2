// Scores of one token's experts, and shares that stay defined when every score underflows.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/jobs.h"

namespace strata::kernels {

// Not the vector form of exp.h: equal logits get equal bits wherever they stand, so that ties stay ties.
template <class A>
A logistic(A x) {
  return A(1) / (A(1) + std::exp(-x));
}

// log(sigmoid(x)), also where sigmoid(x) is below the smallest number.
template <class A>
A log_sigmoid(A x) {
  return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}

template <class A>
A log_sum_exp(const A* x, std::int64_t n) {
  A high = x[0], sum = 0;
  for (std::int64_t i = 1; i < n; ++i) high = std::max(high, x[i]);
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - high);
  return high + std::log(sum);
}

template <class A>
void score(Scoring scoring, const A* logits, std::int64_t E, A* scores) {
  const A lse = scoring == Scoring::Softmax ? log_sum_exp(logits, E) : A(0);
  for (std::int64_t e = 0; e < E; ++e)
    scores[e] = scoring == Scoring::Softmax ? std::exp(logits[e] - lse) : logistic(logits[e]);
}

// score_i / sum of scores over n experts picked by `at(i)`: through logarithms.
template <class A, class At>
void shares(Scoring scoring, const A* logits, std::int64_t n, At at, A* p) {
  for (std::int64_t i = 0; i < n; ++i)
    p[i] = scoring == Scoring::Softmax ? logits[at(i)] : log_sigmoid(logits[at(i)]);
  const A lse = log_sum_exp(p, n);
  for (std::int64_t i = 0; i < n; ++i) p[i] = std::exp(p[i] - lse);
}

// d log(score) / d logit seen through shares(): 1 for softmax (the common term cancels), 1 - score for
// sigmoid.
template <class A>
A log_score_slope(Scoring scoring, A score) {
  return scoring == Scoring::Softmax ? A(1) : A(1) - score;
}

// The k largest of x, best first, lower index first among equals. `taken` [n] is working memory.
template <class A>
void top_k(const A* x, std::int64_t n, std::int64_t k, bool* taken, std::int32_t* out) {
  std::fill(taken, taken + n, false);
  for (std::int64_t r = 0; r < k; ++r) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < n; ++i)
      if (!taken[i] && (best < 0 || x[i] > x[best])) best = i;
    taken[best] = true;
    out[r] = std::int32_t(best);
  }
}

}  // namespace strata::kernels
