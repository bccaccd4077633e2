// What recompute is for: less activation memory at the peak, and the same bits.
#include <gtest/gtest.h>

#include "support/small_model.h"
#include "support/test_device.h"
#include "train/trainer.h"

namespace strata::test {
namespace {

using train::Granularity;
using train::RecomputeModule;
constexpr std::int64_t kRows = 2, kLength = 48, kTokens = kRows * kLength;

struct Outcome {
  std::int64_t peak = 0;  // bytes of activations
  double lm_loss = 0, aux_loss = 0, mtp_loss = 0;
  Values grads;
  std::vector<std::vector<double>> loads;
};

Outcome run(const train::RecomputeSection& recompute, residual::Type type = residual::Type::Msar) {
  train::RunConfig c;
  residual::Config r;
  r.type = type;
  if (r.has_blocks()) r.num_blocks = 3;
  c.model = small_config(r);
  c.model.num_nextn_predict_layers = 1;
  c.training.micro_batch_size = kRows;
  c.precision.compute = train::Compute::Float64;
  c.recompute = recompute;
  device::Device device(device_options());
  train::Trainer trainer(c, device);
  device.memory().reset_peaks();
  const train::StepResult s = trainer.gradients(small_batch(c.model, kRows, kLength));
  Outcome o{
      device.memory().use(device::Purpose::Activations).peak, s.lm_loss, s.aux_loss, s.mtp_loss, {}, {}};
  for (const auto& [name, found] : trainer.store().by_name())
    if (found.parameter) o.grads[name] = to_host(device, found.grad(), "test");
  for (const auto& [layer, moe] : trainer.moes()) o.loads.push_back(to_host(device, moe->load(), "test"));
  return o;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.lm_loss, b.lm_loss);
  EXPECT_EQ(a.aux_loss, b.aux_loss);
  EXPECT_EQ(a.mtp_loss, b.mtp_loss);
  EXPECT_EQ(a.loads, b.loads);
  ASSERT_EQ(a.grads.size(), b.grads.size());
  for (const auto& [name, g] : a.grads) EXPECT_EQ(g, b.grads.at(name)) << name;
}

// Numbers a token that the outputs a module drops take up, in four layers, 1 dense, and the MTP block.
std::int64_t held(RecomputeModule module) {
  switch (module) {
    case RecomputeModule::LayerNorm:
      return 4 * 2 * 20 + 5 * 7;  // before attention and MLP; the latent of MLA
    case RecomputeModule::MoeAct:
      return 23 + 4 * 3 * 11;  // dense; two experts and the shared one
    case RecomputeModule::CoreAttn:
      return 5 * 3 * 6;
    case RecomputeModule::DepthRetrieval:
      return 8 * 4 * 20 + 7 * 20;  // four views for each of eight targets; seven sub-layers' inputs
  }
  return 0;
}

TEST(Recompute, EachModuleLowersThePeakByWhatItDrops) {
  const Outcome none = run({});
  for (const RecomputeModule module : {RecomputeModule::LayerNorm, RecomputeModule::MoeAct,
                                       RecomputeModule::CoreAttn, RecomputeModule::DepthRetrieval}) {
    const Outcome o = run({.granularity = Granularity::Selective, .modules = {module}});
    expect_same(none, o);
    const double bytes = double(held(module) * kTokens) * sizeof(double), saved = double(none.peak - o.peak);
    EXPECT_GE(saved, 0.9 * bytes) << name_of(module);
    EXPECT_LE(saved, 1.1 * bytes) << name_of(module) << " drops what is another's";
  }
}

class RecomputeOf : public ::testing::TestWithParam<residual::Type> {};

TEST_P(RecomputeOf, FullKeepsLittleMoreThanWhatEntersTheLayers) {
  const Outcome none = run({}, GetParam()), full = run({.granularity = Granularity::Full}, GetParam());
  const Outcome selective = run({.granularity = Granularity::Selective}, GetParam());
  expect_same(none, full);
  expect_same(none, selective);
  EXPECT_LT(double(selective.peak), 0.9 * double(none.peak));
  EXPECT_LT(double(full.peak), 0.6 * double(none.peak));
  EXPECT_LT(full.peak, selective.peak);
}

INSTANTIATE_TEST_SUITE_P(Residuals, RecomputeOf,
                         ::testing::Values(residual::Type::Vanilla, residual::Type::AttnRes,
                                           residual::Type::Msar, residual::Type::Mhc,
                                           residual::Type::AttnResMhc),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace strata::test
