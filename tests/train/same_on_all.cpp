// Ranks that were not given the same.
#include "train/same_on_all.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/error.h"
#include "comm/world.h"

namespace strata::test {
namespace {

// What every one of three ranks says when rank 2 was given `changed`.
std::string refusal(const train::RunConfig& config, const train::RunConfig& changed,
                    const std::string& command = "train") {
  std::vector<std::string> said(3);
  comm::run_threads(3, [&](comm::World& world) {
    const auto all = world.group("all", {0, 1, 2});
    const bool odd = world.rank() == 2;
    try {
      train::same_on_all(*all, train::started_with(odd ? command : "train", odd ? changed : config));
    } catch (const InputError& e) {
      said[world.rank()] = e.what();
    }
  });
  EXPECT_EQ(said[0], said[1]);
  EXPECT_EQ(said[0], said[2]);
  return said[0];
}

TEST(SameOnAll, NamesTheRankTheKeyAndBothValues) {
  const std::string rule = ": all ranks need the same command, configuration and data";
  train::RunConfig config, other;
  EXPECT_EQ(refusal(config, config), "");
  other.backend.threads = 3;
  EXPECT_EQ(refusal(config, other), "") << "threads may differ";
  other.run.seed = 8;
  EXPECT_EQ(refusal(config, other), "run.seed is 8 on rank 2 and 1234 on rank 0" + rule);
  EXPECT_EQ(refusal(config, config, "train --overwrite"),
            "command is \"train --overwrite\" on rank 2 and \"train\" on rank 0" + rule);
  other = config;
  other.optimizer.clip_grad = 0.1;
  EXPECT_EQ(refusal(config, other), "optimizer.clip_grad is 0.1 on rank 2 and 1.0 on rank 0" + rule);
  other = config;
  config.run.output_dir = std::string(100, 'a'), other.run.output_dir = std::string(101, 'a');
  const std::string said = refusal(config, other);
  EXPECT_TRUE(said.starts_with("run.output_dir differs between rank 2 and rank 0 behind \"aaa")) << said;
}

}  // namespace
}  // namespace strata::test
