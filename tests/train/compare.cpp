// The comparison of a trace with a reference: its norms, floors and order.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "train/trace.h"

namespace strata::test {
namespace {

using train::Difference;
using train::TraceTensor;
using train::TraceTensors;
using Tensors = std::map<std::string, std::vector<double>>;

std::vector<Difference> compare(const Tensors& ours, const Tensors& reference, double tolerance,
                                bool with_steps = true) {
  const std::string path =
      testing::TempDir() + "strata_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  checkpoint::SafetensorsWriter writer;
  for (const auto& [name, v] : reference) writer.add(name, "F64", {std::int64_t(v.size())}, v);
  writer.write(path);
  TraceTensors traced;
  for (const auto& [name, v] : ours) traced[name] = {{std::int64_t(v.size())}, v};
  const auto all = train::compare(
      traced, checkpoint::SafetensorsFile(path), [&](const std::string&) { return tolerance; }, with_steps);
  std::filesystem::remove(path);
  return all;
}

TEST(Compare, RelativeToTheNormOfTheReference) {
  const auto all = compare({{"a", {3, 4.5}}}, {{"a", {3, 4}}}, 0.2);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_DOUBLE_EQ(all[0].value, 0.1);
  EXPECT_TRUE(all[0].within());
}

TEST(Compare, AReferenceOfZerosIsComparedAbsolutely) {
  EXPECT_DOUBLE_EQ(compare({{"a", {0.3, 0.4}}}, {{"a", {0, 0}}}, 1)[0].value, 0.5);
}

TEST(Compare, SmallGradientsAreMeasuredAgainstAllGradientsTogether) {
  const auto all = compare({{"grad.large", {3, 4}}, {"grad.small", {1e-3}}, {"small", {1e-3}}},
                           {{"grad.large", {3, 4}}, {"grad.small", {0}}, {"small", {2e-3}}}, 1);
  for (const Difference& d : all) {
    if (d.name == "grad.small") {
      EXPECT_NEAR(d.value, 1e-3 / (1e-3 * 5), 1e-12);
    }
    if (d.name == "small") {
      EXPECT_NEAR(d.value, 0.5, 1e-12) << "only gradients have a floor";
    }
  }
}

TEST(Compare, WorstFirstAndWhatCannotBeComparedBeforeThat) {
  const auto all = compare({{"a", {1.1}}, {"b", {1.3}}, {"c", {1.2}}, {"e", {NAN}}, {"f", {1, 1}}},
                           {{"a", {1}}, {"b", {1}}, {"c", {1}}, {"d", {1}}, {"e", {1}}, {"f", {1}}}, 0.15);
  std::string order;
  for (const Difference& d : all) order += d.name;
  EXPECT_EQ(order, "defbca");
  EXPECT_EQ(all[0].missing, "missing from the output");
  EXPECT_EQ(all[2].missing, "of another shape");
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].within(), i == 5) << all[i].name;
}

TEST(Compare, ZeroToleranceIsMetByEqualNumbersOnly) {
  const auto all = compare({{"a", {1}}, {"b", {2}}}, {{"a", {1}}, {"b", {1}}}, 0);
  EXPECT_EQ(all[0].name, "b");
  EXPECT_FALSE(all[0].within());
  EXPECT_TRUE(all[1].within());
}

TEST(Compare, TrainedWeightsCountOnlyAfterSteps) {
  const Tensors reference{{"loss", {1}}, {"train.loss", {1}}, {"trained.w", {1}}};
  EXPECT_EQ(compare({{"loss", {1}}}, reference, 1, false).size(), 1u);
  EXPECT_EQ(compare({{"loss", {1}}}, reference, 1, true).size(), 3u);
}

}  // namespace
}  // namespace strata::test
