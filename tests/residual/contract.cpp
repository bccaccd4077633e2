// What every residual type promises, whatever it computes.
#include <gtest/gtest.h>

#include "support/op_case.h"
#include "support/small_model.h"

namespace strata::test {
namespace {

class Contract : public ::testing::TestWithParam<Variant> {
 protected:
  model::ModelConfig config = small_config(GetParam().config);
  HostBatch batch = small_batch(config, 2, 13);

  // An expert that no token chose; in the hybrid, a retrieval from one source, and H_res where a block opens.
  bool may_be_idle(const std::string& name) const {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    if (has(".experts.")) return true;
    if (config.residual.type != residual::Type::AttnResMhc) return false;
    return has("alpha_res") || has("bias_res") || has("layers.0.attn_res.query") ||
           has("layers.0.attn_res.key_norm");
  }
};

void expect_same_bits(const ModelResult& a, const ModelResult& b, const std::string& what) {
  EXPECT_EQ(a.loss, b.loss) << what;
  EXPECT_TRUE(a.logits == b.logits) << what << ": logits";
  for (const auto& [name, g] : a.grads)
    EXPECT_TRUE(g == b.grads.at(name)) << what << ": gradient of " << name;
  EXPECT_TRUE(a.loads == b.loads) << what << ": expert loads";
}

TEST_P(Contract, EveryGradientIsAlive) {
  const ModelResult r = run_model(config, batch);
  EXPECT_EQ(r.grads.empty(), false);
  for (const auto& [name, g] : r.grads) {
    double norm = 0;
    for (const double x : g) norm += x * x;
    EXPECT_TRUE(std::isfinite(norm)) << name;
    if (!may_be_idle(name)) {
      EXPECT_GT(norm, 0) << name;
    }
  }
}

TEST_P(Contract, EveryCutGivesTheSameGradients) {
  const ModelResult whole = run_model(config, batch);
  std::map<std::string, std::vector<double>> sealed;
  for (int cut = 1; cut <= int(config.num_hidden_layers); ++cut) {  // the last one is before the head
    const CutResult r = run_cut(config, batch, cut);
    EXPECT_EQ(r.boundary_fault, "") << "cut before layer " << cut;
    EXPECT_EQ(r.whole.loss, whole.loss) << "cut before layer " << cut;
    EXPECT_TRUE(r.whole.logits == whole.logits) << "cut before layer " << cut;
    EXPECT_LE(worst_difference(r.whole.grads, whole.grads), 1e-12) << "cut before layer " << cut;
    EXPECT_TRUE(r.whole.loads == whole.loads);
    for (const auto& [name, value] : r.sealed) {
      const auto [it, fresh] = sealed.try_emplace(name, value);
      EXPECT_TRUE(it->second == value) << name << " changed after it was sealed";
    }
  }
}

TEST_P(Contract, RecomputeGivesTheSameBits) {
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16}) {
    ModelRun run;
    run.compute = type;
    const ModelResult plain = run_model(config, batch, run);
    run.recompute_layers = true;
    expect_same_bits(run_model(config, batch, run), plain, "full recompute");
    run.recompute_layers = false;
    run.tape.recompute = {true, true, true, true};
    expect_same_bits(run_model(config, batch, run), plain, "selective recompute");
  }
}

TEST_P(Contract, CutAndRecomputeTogether) {
  ModelRun run;
  const CutResult plain = run_cut(config, batch, 2, run);
  run.recompute_layers = true;
  expect_same_bits(run_cut(config, batch, 2, run).whole, plain.whole, "full recompute at a cut");
  run.recompute_layers = false;
  run.tape.recompute = {true, true, true, true};
  expect_same_bits(run_cut(config, batch, 2, run).whole, plain.whole, "selective recompute at a cut");
}

TEST_P(Contract, LateWeightGradientsGiveTheSameBits) {
  ModelRun run;
  const ModelResult plain = run_model(config, batch, run);
  run.when = Weights::Later;
  expect_same_bits(run_model(config, batch, run), plain, "weight gradients later");
  run.recompute_layers = true;
  expect_same_bits(run_model(config, batch, run), plain, "weight gradients later, full recompute");
}

TEST_P(Contract, MicroBatchesAddUp) {
  const ModelResult whole = run_model(config, batch);
  ModelRun run;
  run.micro_batch = 1;
  const ModelResult parts = run_model(config, batch, run);
  EXPECT_NEAR(parts.loss, whole.loss, 1e-13 * std::abs(whole.loss));
  EXPECT_LE(worst_difference(parts.grads, whole.grads), 1e-12);
  EXPECT_TRUE(parts.loads == whole.loads);
}

// With zero queries, exact deltas and H_post = 1 every variant computes the vanilla network.
TEST_P(Contract, EqualsVanillaAtInitialisation) {
  config.rms_norm_eps = 1e-24;
  config.residual.conv_init_std = 0;
  config.initializer_range = 0.006;
  ModelRun run;
  run.scale_norms = 0;
  run.prepare = [](ParameterStore& store) {
    for (const auto& [name, found] : store.by_name())
      if (name.ends_with("alpha_post")) store.set(name, {0});
  };
  model::ModelConfig vanilla = config;
  vanilla.residual = {};
  const ModelResult want = run_model(vanilla, batch, run), got = run_model(config, batch, run);
  EXPECT_LE(relative_error(got.logits, want.logits), 1e-9);
  Values base;
  for (const auto& [name, g] : want.grads) base[name] = got.grads.at(name);
  EXPECT_LE(worst_difference(base, want.grads), 1e-9);
}

// Other tokens may choose other experts, and a matrix product over other rows may round differently.
constexpr double kRounding = 1e-12;

TEST_P(Contract, ATokenChangesNothingBeforeIt) {
  const ModelResult before = run_model(config, batch);
  for (const std::int64_t t : {1, 6, 12}) {
    HostBatch changed = batch;
    changed.input_ids[t] = (changed.input_ids[t] + 5) % config.vocab_size;
    const ModelResult after = run_model(config, changed);
    const std::int64_t V = config.vocab_size;
    for (std::int64_t i = 0; i < t * V; ++i)
      ASSERT_NEAR(after.logits[i], before.logits[i], kRounding) << "token " << i / V;
    bool moved = false;
    for (std::int64_t i = t * V; i < (t + 1) * V; ++i)
      moved |= std::abs(after.logits[i] - before.logits[i]) > 1e-6;
    EXPECT_TRUE(moved);
    for (std::int64_t i = batch.length * V; i < 2 * batch.length * V; ++i)
      ASSERT_NEAR(after.logits[i], before.logits[i], kRounding) << "the other sequence";
  }
}

TEST_P(Contract, DocumentsAreIsolated) {
  const ModelResult before = run_model(config, batch);
  HostBatch changed = batch;
  for (std::int64_t t = 0; t < batch.length / 2; ++t)
    changed.input_ids[t] = (batch.input_ids[t] + 1 + t) % config.vocab_size;
  const ModelResult after = run_model(config, changed);
  const std::int64_t V = config.vocab_size;
  for (std::int64_t i = batch.length / 2 * V; i < batch.length * V; ++i)
    ASSERT_NEAR(after.logits[i], before.logits[i], kRounding) << "token " << i / V;
}

INSTANTIATE_TEST_SUITE_P(AllResiduals, Contract, ::testing::ValuesIn(residual_variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test
