// Random numbers: known answers, ranges, moments, independence of names.
#include "base/philox.h"

#include <gtest/gtest.h>

namespace strata::test {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The zero vector of Random123's kat_vectors; the others from an implementation that gives all three of its
// answers.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox(0).block(0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(0x299f31d0a4093822).block(0x85a308d3243f6a88),
            (Block{0xe69c9c31, 0xb5a3d762, 0xe733bfc1, 0x341a787c}));
  EXPECT_EQ(Philox(~0ull).block(~0ull), (Block{0x4d18d7d2, 0x430ac65a, 0xbd2fa22a, 0x0afae10d}));
}

TEST(Philox, UniformIsInsideTheUnitInterval) {
  const Philox random(1, "uniform");
  double sum = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double u = random.uniform(i);
    ASSERT_GT(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 20000, 0.5, 0.01);
}

TEST(Philox, NormalHasItsMoments) {
  const Philox random(1, "normal");
  const int n = 40000;
  double m[5] = {};
  for (int i = 0; i < n; ++i) {
    const double z = random.normal(i);
    for (int p = 1; p <= 4; ++p) m[p] += std::pow(z, p) / n;
  }
  EXPECT_NEAR(m[1], 0, 0.02);
  EXPECT_NEAR(m[2], 1, 0.03);
  EXPECT_NEAR(m[3], 0, 0.08);
  EXPECT_NEAR(m[4], 3, 0.2);
}

TEST(Philox, SeedNameAndIndexMatter) {
  EXPECT_EQ(Philox(1, "a").bits(5), Philox(1, "a").bits(5));
  EXPECT_NE(Philox(1, "a").bits(5), Philox(2, "a").bits(5));
  EXPECT_NE(Philox(1, "a").bits(5), Philox(1, "b").bits(5));
  EXPECT_NE(Philox(1, "a").bits(5), Philox(1, "a").bits(6));
}

}  // namespace
}  // namespace strata::test
