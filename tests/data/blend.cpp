// Weighted order of sources: any place at once, every prefix near the weights.
#include "data/blend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace strata::test {
namespace {

using data::Blend;

// Walks through the order and checks each place against what was counted on the way.
std::vector<std::size_t> walked(const Blend& blend, std::int64_t samples) {
  std::vector<std::int64_t> counts(blend.sources());
  std::vector<std::size_t> order;
  for (std::int64_t i = 0; i < samples; ++i) {
    EXPECT_EQ(blend.counts(i), counts) << i;
    const Blend::Place place = blend.at(i);
    EXPECT_EQ(place.index, counts[place.source]) << i;
    ++counts[place.source];
    order.push_back(place.source);
  }
  return order;
}

TEST(Blend, OneSource) {
  const Blend blend({3});
  EXPECT_EQ(blend.share(0), 1);
  EXPECT_EQ(walked(blend, 100), std::vector<std::size_t>(100, 0));
  EXPECT_EQ(blend.at(1000000000000).index, 1000000000000);
}

TEST(Blend, EqualWeightsTakeTurns) {
  EXPECT_EQ(walked(Blend({1, 1, 1}), 6), (std::vector<std::size_t>{0, 1, 2, 0, 1, 2}));
}

TEST(Blend, EveryPrefixIsNearTheWeights) {
  for (const std::vector<double>& weights : {std::vector<double>{0.999, 0.001},
                                             {0.001, 0.999},
                                             {5, 3, 2},
                                             {0.7, 0.2, 0.06, 0.04},
                                             {1, 1e-6, 1e6}}) {
    const Blend blend(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<double> counts(weights.size());
    std::int64_t n = 0;
    for (const std::size_t source : walked(blend, 3000)) {
      ++counts[source];
      ++n;
      for (std::size_t i = 0; i < weights.size(); ++i)
        EXPECT_LE(std::abs(counts[i] - double(n) * weights[i] / sum), 1.0)
            << "source " << i << ", prefix " << n;
    }
  }
}

TEST(Blend, TinyWeight) {
  const Blend blend({0.001, 0.999});
  EXPECT_EQ(blend.counts(1000), (std::vector<std::int64_t>{1, 999}));
  EXPECT_EQ(blend.counts(1000000), (std::vector<std::int64_t>{1000, 999000}));
  // Below the resolution of the weights a source still gets some.
  EXPECT_GT(Blend({1e-30, 1}).counts(1ll << 40)[0], 0);
}

TEST(Blend, FarPlacesAgreeWithTheirNeighbours) {
  const Blend blend({0.5, 0.3, 0.123, 0.077, 1e-5});
  for (const std::int64_t far :
       {std::int64_t(10000000), std::int64_t(1) << 32, std::int64_t(1000000000000000)}) {
    std::vector<std::int64_t> counts = blend.counts(far);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t(0)), far);
    for (std::int64_t i = far; i < far + 200; ++i) {
      const Blend::Place place = blend.at(i);
      EXPECT_EQ(place.index, counts[place.source]++);
      EXPECT_EQ(blend.counts(i + 1), counts);
    }
  }
}

TEST(Blend, OnlyRatiosOfWeightsMatter) {
  const Blend a({2, 1, 5}), b({0.25, 0.125, 0.625});
  EXPECT_EQ(walked(a, 500), walked(b, 500));
  EXPECT_EQ(a.share(2), 0.625);
}

}  // namespace
}  // namespace strata::test
