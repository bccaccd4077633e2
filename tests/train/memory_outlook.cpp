// What a run says of its memory before it takes any.
#include "train/memory_outlook.h"

#include <gtest/gtest.h>

#include "support/small_model.h"
#include "train/layout.h"
#include "train/layout_plan.h"
#include "train/run_text.h"

namespace strata::test {
namespace {

// By ranks whose hosts have so much left.
train::MemoryOutlook outlook(const train::RunConfig& config, const std::vector<std::int64_t>& left) {
  train::MemoryOutlook told;
  comm::run_threads(int(left.size()), [&](comm::World& world) {
    const comm::Mesh mesh(world, train::mesh_shape(config, world.size()));
    const auto mine = train::memory_outlook(config, mesh, {left[world.rank()], "the limit's file"});
    if (world.rank() == 0)
      told = mine;
    else
      EXPECT_EQ(mine.planned, "");
  });
  return told;
}

TEST(MemoryOutlook, IsThatOfThePlanBesideWhatTheHostHas) {
  train::RunConfig config;
  config.model = small_config({});
  config.model.n_routed_experts = 4;
  config.training.seq_length = 300, config.training.global_batch_size = 4;
  config.parallel.pipeline_model_parallel_size = config.parallel.expert_model_parallel_size = 2;
  const train::LayoutPlan plan = train::plan_layout(config, 4);
  const auto &a = plan.ranks[0], &b = plan.ranks[1];
  ASSERT_NE(train::megabytes(a.memory.total.peak), train::megabytes(b.memory.total.peak));
  // Two data-parallel ranks of each stage.
  const std::int64_t needed =
      2 * (a.memory.reserved + a.memory.snapshot + b.memory.reserved + b.memory.snapshot);
  const train::MemoryOutlook fits = outlook(config, std::vector<std::int64_t>(4, needed));
  EXPECT_EQ(fits.planned, concat("memory: planned peaks ", train::megabytes(a.memory.total.peak), ", ",
                                 train::megabytes(b.memory.total.peak), " by pipeline rank, ",
                                 train::megabytes(std::max(a.worst_peak, b.worst_peak)),
                                 " should all tokens choose experts of one rank"));
  EXPECT_EQ(fits.too_much, std::vector<std::string>());
  const train::MemoryOutlook tight = outlook(config, {needed, needed, needed - 1, needed});
  EXPECT_EQ(tight.planned, fits.planned);
  ASSERT_EQ(tight.too_much.size(), 1u);
  EXPECT_TRUE(tight.too_much[0].starts_with("memory: 4 ranks on ")) << tight.too_much[0];
  EXPECT_NE(tight.too_much[0].find(concat(" will hold about ", train::megabytes(needed), ", ",
                                          train::megabytes(needed - 1), " are left (the limit's file): ")),
            std::string::npos)
      << tight.too_much[0];
}

TEST(MemoryOutlook, OfOneRankIsOneNumber) {
  train::RunConfig config;
  config.model = small_config({});
  config.training.seq_length = 8;
  const train::MemoryOutlook told = outlook(config, {0});
  EXPECT_EQ(told.planned, "memory: planned peak " +
                              train::megabytes(train::plan_layout(config, 1).ranks[0].memory.total.peak));
  ASSERT_EQ(told.too_much.size(), 1u);
  EXPECT_TRUE(told.too_much[0].starts_with("memory: 1 rank on ")) << told.too_much[0];
}

}  // namespace
}  // namespace strata::test
