// A rank without sequences does everything the others do: losses, gradients and loads are zero, not what was
// in memory.
#include <gtest/gtest.h>

#include "support/small_model.h"

namespace strata::test {
namespace {

void expect_zero(const std::vector<double>& values, const std::string& what) {
  for (const double v : values) ASSERT_EQ(v, 0) << what;
}

void expect_nothing(const model::ModelConfig& config, const HostBatch& batch, ModelRun run) {
  run.counts = {.labels = 10, .next_labels = 9, .tokens = 12, .sequences = 2};
  const ModelResult r = run_model(config, batch, run);
  expect_zero({r.loss, r.lm_loss, r.aux_loss, r.mtp_loss}, "losses");
  EXPECT_TRUE(r.token_loss.empty());
  EXPECT_FALSE(r.grads.empty());
  for (const auto& [name, g] : r.grads) expect_zero(g, name);
  EXPECT_FALSE(r.loads.empty());
  for (const auto& load : r.loads) expect_zero({load.begin(), load.end()}, "load");
}

class NoRows : public ::testing::TestWithParam<Variant> {};

TEST_P(NoRows, GiveNothing) {
  model::ModelConfig c = small_config(GetParam().config);
  c.num_nextn_predict_layers = 1;
  for (const DType compute : {DType::Float64, DType::Float32, DType::BFloat16})
    for (const bool documents : {false, true}) {
      HostBatch batch = small_batch(c, 1, 6, 1, documents).slice(0, 0);
      expect_nothing(c, batch, {.compute = compute});
    }
}

TEST_P(NoRows, GiveNothingRecomputed) {
  const model::ModelConfig c = small_config(GetParam().config);
  const HostBatch batch = small_batch(c, 1, 6).slice(0, 0);
  Tape::Options selective;
  selective.recompute = {.norm = true, .activation = true, .attention = true, .depth_retrieval = true};
  expect_nothing(c, batch, {.tape = selective, .when = Weights::Later});
  expect_nothing(c, batch, {.recompute_layers = true});
}

INSTANTIATE_TEST_SUITE_P(Residuals, NoRows, ::testing::ValuesIn(residual_variants()),
                         [](const auto& info) { return info.param.name; });

TEST(NoRowsOf, EveryModelPart) {
  const model::ModelConfig usual = small_config({});
  model::ModelConfig gqa = usual, query = usual, softmax = usual, tied = usual, gates = usual;
  gqa.attention = model::Attention::Gqa;
  gqa.num_attention_heads = 4;
  gqa.num_key_value_heads = 2;
  gqa.head_dim = 6;
  query.q_lora_rank = 9;
  softmax.scoring_func = model::ScoringFunc::Softmax;
  tied.tie_word_embeddings = true;
  gates.n_shared_experts = 0;
  gates.norm_topk_prob = false;
  for (const model::ModelConfig& c : {gqa, query, softmax, tied, gates})
    expect_nothing(c, small_batch(c, 1, 6).slice(0, 0), {});
}

}  // namespace
}  // namespace strata::test
