// The next token from logits, against the distribution written out.
#include "model/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace strata::test {
namespace {

using model::Sampler;
using model::SamplingRule;

std::vector<double> some_logits(std::int64_t count, std::uint64_t seed) {
  const Philox random(seed, "logits");
  std::vector<double> logits(count);
  for (std::int64_t i = 0; i < count; ++i) logits[i] = 2 * random.normal(i);
  logits[count / 2] = logits[1];  // a tie
  return logits;
}

// Rank by rank: a token is in if fewer than top_k come before it and those hold less than top_p of the
// top_k's sum.
std::vector<double> probabilities(const std::vector<double>& logits, const SamplingRule& rule) {
  const std::size_t V = logits.size(), k = rule.top_k > 0 ? std::min<std::size_t>(rule.top_k, V) : V;
  std::vector<double> p(V);
  const auto before = [&](std::size_t a, std::size_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  const auto rank = [&](std::size_t i) {
    std::size_t r = 0;
    for (std::size_t j = 0; j < V; ++j) r += before(j, i);
    return r;
  };
  double sum = 0;
  for (std::size_t i = 0; i < V; ++i) {
    p[i] = rank(i) < k ? std::exp(logits[i] / rule.temperature) : 0;
    sum += p[i];
  }
  std::vector<double> kept(V, 0.0);
  double total = 0;
  for (std::size_t i = 0; i < V; ++i) {
    double higher = 0;
    for (std::size_t j = 0; j < V; ++j) higher += before(j, i) ? p[j] : 0;
    if (p[i] > 0 && higher < rule.top_p * sum) total += kept[i] = p[i];
  }
  for (double& x : kept) x /= total;
  return kept;
}

TEST(Sampling, FrequenciesAreTheProbabilities) {
  constexpr int kDraws = 40000;
  for (const SamplingRule& rule :
       {SamplingRule{}, SamplingRule{0.5, 0, 1}, SamplingRule{2, 0, 1}, SamplingRule{1, 5, 1},
        SamplingRule{1, 0, 0.7}, SamplingRule{1.3, 7, 0.8}, SamplingRule{1, 1000, 0.999}}) {
    const std::vector<double> logits = some_logits(23, 4), p = probabilities(logits, rule);
    Sampler sampler(rule, 9);
    std::vector<double> count(logits.size(), 0.0);
    for (int i = 0; i < kDraws; ++i) ++count[sampler.next(logits)];
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double deviation = std::sqrt(p[i] * (1 - p[i]) / kDraws);
      EXPECT_NEAR(count[i] / kDraws, p[i], 5 * deviation)
          << "token " << i << " temperature " << rule.temperature << " top-k " << rule.top_k << " top-p "
          << rule.top_p;
    }
  }
}

TEST(Sampling, OneTokenLeftIsTheGreedyOne) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<double> logits = some_logits(17, seed);
    const std::int64_t best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    for (const SamplingRule& rule : {SamplingRule{0, 0, 1}, SamplingRule{3, 1, 1}, SamplingRule{1, 0, 1e-9}})
      EXPECT_EQ(Sampler(rule, seed).next(logits), best);
  }
}

TEST(Sampling, TopPEndsWhereTheShareIsReached) {
  const std::vector<double> logits{std::log(0.5), std::log(0.25), std::log(0.125), std::log(0.125)};
  const auto tokens = [&](double top_p) {
    Sampler sampler({1, 0, top_p}, 2);
    std::int64_t highest = 0;
    for (int i = 0; i < 2000; ++i) highest = std::max(highest, sampler.next(logits));
    return highest + 1;
  };
  EXPECT_EQ(tokens(0.4), 1);
  EXPECT_EQ(tokens(0.499999), 1);
  EXPECT_EQ(tokens(0.500001), 2);
  EXPECT_EQ(tokens(0.7), 2);
  EXPECT_EQ(tokens(0.76), 3);
  EXPECT_EQ(tokens(0.9), 4);
  EXPECT_EQ(tokens(1), 4);
  Sampler half({1, 0, 0.5}, 2);
  for (int i = 0; i < 200; ++i) EXPECT_LT(half.next({0, 0, 0, 0}), 2) << "two of four equal ones are half";
}

TEST(Sampling, EqualLogitsRankByIndex) {
  Sampler sampler({1, 2, 1}, 3);
  for (int i = 0; i < 200; ++i) EXPECT_LT(sampler.next({1, 1, 1, 1}), 2);
  EXPECT_EQ(Sampler({0, 0, 1}, 3).next({0, 7, 7}), 1);
  EXPECT_EQ(Sampler({1e-300, 0, 1}, 3).next({0, 7, 6.999}), 1);
}

TEST(Sampling, ASeedIsASequence) {
  const std::vector<double> logits = some_logits(200, 1);
  const auto draw = [&](std::uint64_t seed) {
    Sampler sampler({1.5, 0, 1}, seed);
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 40; ++i) ids.push_back(sampler.next(logits));
    return ids;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Sampling, RefusesRulesAndLogitsOutOfRange) {
  const double infinity = HUGE_VAL;
  EXPECT_THROW(Sampler({-0.1, 0, 1}, 1), InputError);
  EXPECT_THROW(Sampler({NAN, 0, 1}, 1), InputError);
  EXPECT_THROW(Sampler({infinity, 0, 1}, 1), InputError);
  EXPECT_THROW(Sampler({1, -1, 1}, 1), InputError);
  EXPECT_THROW(Sampler({1, 0, 0}, 1), InputError);
  EXPECT_THROW(Sampler({1, 0, 1.01}, 1), InputError);
  EXPECT_THROW(Sampler({1, 0, NAN}, 1), InputError);
  Sampler sampler({}, 1);
  EXPECT_THROW(sampler.next({0, NAN}), Error);
  EXPECT_THROW(sampler.next({-infinity, -infinity}), Error);
  EXPECT_EQ(sampler.next({-infinity, 3, -infinity}), 1);
}

}  // namespace
}  // namespace strata::test
