// Decoding with kept rows against one pass over all tokens: every residual type, both kinds of attention,
// dense and MoE, for several ways to cut a text into prompt, chunks and single tokens.
#include <gtest/gtest.h>
#include <omp.h>

#include "model/decoder.h"
#include "support/op_case.h"
#include "support/small_model.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using Cuts = std::vector<std::int64_t>;  // tokens of each feed; the last is repeated until the text ends

// A model with given weights, ready to decode.
struct Ready {
  device::Device device{device_options()};
  ParameterStore store;
  model::Stage stage;

  Ready(const model::ModelConfig& config, const Values& weights, DType compute)
      : stage(config, {0, int(config.num_hidden_layers), true, true}, store) {
    store.allocate(device, compute, false);
    stage.allocate(device);
    for (const auto& [name, values] : weights) store.set(name, values);
  }
  std::vector<double> logits(const std::vector<std::int64_t>& ids, const Cuts& cuts) {
    const std::int64_t length = std::int64_t(ids.size());
    model::Decoder decoder(stage, device, length);
    std::vector<double> all;
    for (std::size_t i = 0; decoder.tokens() < length; ++i) {
      const auto begin = ids.begin() + decoder.tokens();
      const std::int64_t n = std::min(cuts[std::min(i, cuts.size() - 1)], length - decoder.tokens());
      const std::vector<double> some = to_host(device, decoder.feed({begin, begin + n}, n), "test");
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
};

// The largest relative error of a token's logits.
double worst_token(const std::vector<double>& got, const std::vector<double>& want, std::int64_t vocabulary) {
  EXPECT_EQ(got.size(), want.size());
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); i += vocabulary)
    worst = std::max(worst, relative_error({got.begin() + i, got.begin() + i + vocabulary},
                                           {want.begin() + i, want.begin() + i + vocabulary}));
  return worst;
}

void expect_same_logits(const model::ModelConfig& config, std::int64_t length, const std::vector<Cuts>& ways,
                        DType compute, double tolerance) {
  const HostBatch batch = small_batch(config, 1, length, 5, false);
  ModelRun run;
  run.compute = compute;
  const ModelResult whole = run_model(config, batch, run);
  Ready model(config, whole.weights, compute);
  for (const Cuts& cuts : ways)
    EXPECT_LE(worst_token(model.logits(batch.input_ids, cuts), whole.logits, config.vocab_size), tolerance)
        << "prompt of " << cuts[0] << ", then " << cuts.back();
}

void use_dense(model::ModelConfig& c) {
  c.n_routed_experts = 0;
  c.seq_aux_loss_coef = c.router_z_loss_coef = 0;
}

class Decode : public ::testing::TestWithParam<Variant> {
 protected:
  std::vector<model::ModelConfig> configs() const {
    std::vector<model::ModelConfig> all(4, small_config(GetParam().config));
    use_gqa(all[1], 4, 2, 6);
    use_gqa(all[3], 4, 2, 6);
    use_dense(all[2]);
    use_dense(all[3]);
    return all;
  }
};

// The convolutions reach back 11 tokens: prompts shorter, as long, and longer.
TEST_P(Decode, EqualsOnePassOverAllTokens) {
  for (const model::ModelConfig& config : configs())
    expect_same_logits(config, 19, {{19}, {1}, {5, 1}, {11, 1}, {12, 1}, {18, 1}, {3}, {2, 7, 1, 4}},
                       DType::Float64, 1e-12);
}

TEST_P(Decode, Float32AndBFloat16) {
  const model::ModelConfig config = small_config(GetParam().config);
  expect_same_logits(config, 19, {{1}, {6, 1}, {3}}, DType::Float32, 1e-5);
  expect_same_logits(config, 19, {{19}}, DType::BFloat16, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(AllResiduals, Decode, ::testing::ValuesIn(residual_variants()),
                         [](const auto& info) { return info.param.name; });

model::ModelConfig msar() {
  for (const Variant& v : residual_variants())
    if (v.name == "msar_block") return small_config(v.config);
  throw Error("no msar_block");
}

// Beyond a block of attention and a step of the table of angles; chunks that read the latents as they are,
// and larger ones that make keys and values of them.
TEST(DecodeLong, Latents) {
  expect_same_logits(msar(), 210, {{1}, {150, 1}, {63, 1, 64, 3}, {70, 40, 20, 7}}, DType::Float64, 1e-12);
}

TEST(DecodeLong, GroupedKeys) {
  model::ModelConfig config = msar();
  use_gqa(config, 8, 1, 4);
  expect_same_logits(config, 210, {{1}, {150, 1}, {63, 1, 64, 3}, {10, 200}}, DType::Float64, 1e-12);
}

TEST(DecodeOther, NextTokenModuleQueryRankAndTiedHead) {
  model::ModelConfig config = msar();
  config.num_nextn_predict_layers = 1;
  config.q_lora_rank = 9;
  config.tie_word_embeddings = true;
  expect_same_logits(config, 17, {{1}, {4, 1}}, DType::Float64, 1e-12);
}

TEST(DecodeOther, SoftmaxRouterWithGroups) {
  model::ModelConfig config = msar();
  config.scoring_func = model::ScoringFunc::Softmax;
  config.n_routed_experts = 6;
  config.n_group = 3;
  config.topk_group = 2;
  expect_same_logits(config, 17, {{1}, {4, 1}, {3}}, DType::Float64, 1e-12);
}

TEST(DecodeOther, OneViewAndAKernelLongerThanTheText) {
  model::ModelConfig config = msar();
  config.residual.streams = 1;
  expect_same_logits(config, 17, {{1}, {4, 1}}, DType::Float64, 1e-12);
  config.residual.streams = 3;
  config.residual.kernel_sizes = std::vector<std::int64_t>{30, 2};
  expect_same_logits(config, 17, {{1}, {4, 1}, {3}}, DType::Float64, 1e-12);
}

TEST(DecodeOther, TheSameBitsAtAnyThreadCount) {
  const model::ModelConfig config = msar();
  const HostBatch batch = small_batch(config, 1, 40, 5, false);
  const Values weights = run_model(config, batch).weights;
  Ready model(config, weights, DType::Float32);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<double> one = model.logits(batch.input_ids, {30, 1});
  omp_set_num_threads(3);
  EXPECT_TRUE(model.logits(batch.input_ids, {30, 1}) == one);
  omp_set_num_threads(threads);
}

TEST(DecodeOther, LeavesExpertLoadsAlone) {
  const model::ModelConfig config = msar();
  const HostBatch batch = small_batch(config, 1, 9, 5, false);
  Ready model(config, run_model(config, batch).weights, DType::Float64);
  model.logits(batch.input_ids, {4, 1});
  for (nn::Moe* moe : model.stage.moes())
    for (const double load : to_host(model.device, moe->load(), "test")) EXPECT_EQ(load, 0);
}

// Kept per layer and token: latent and turned key, or keys and values of the key heads; per source with
// convolutions the rows they reach.
TEST(DecodeOther, KeepsNoMoreThanItReads) {
  constexpr std::int64_t kCapacity = 100;
  const auto kept = [&](const model::ModelConfig& config) {
    const HostBatch batch = small_batch(config, 1, 20, 5, false);
    Ready model(config, run_model(config, batch).weights, DType::Float64);
    model::Decoder decoder(model.stage, model.device, kCapacity);
    decoder.feed(batch.input_ids);
    decoder.feed({1});
    const std::int64_t attention = kCapacity * model::Decoder::bytes_per_token(config, DType::Float64);
    return std::pair{attention / 8, decoder.cache_bytes() / 8};
  };
  model::ModelConfig config = small_config({});
  const std::int64_t latents = 4 * kCapacity * (7 + 4), keys = 4 * kCapacity * 2 * 2 * 6;
  EXPECT_EQ(kept(config), std::pair(latents, latents));
  // 8 sub-layers in 3 blocks: the embedding, three blocks and the partial sums before five sub-layers.
  EXPECT_EQ(kept(msar()), std::pair(latents, latents + (4 + 5) * (11 + 1) * 20));
  use_gqa(config, 4, 2, 6);
  EXPECT_EQ(kept(config), std::pair(keys, keys));
}

TEST(DecodeOther, RefusesWhatDoesNotFit) {
  const model::ModelConfig config = msar();
  const HostBatch batch = small_batch(config, 1, 9, 5, false);
  Ready model(config, run_model(config, batch).weights, DType::Float64);
  model::Decoder decoder(model.stage, model.device, 10);
  EXPECT_NO_THROW(decoder.feed(batch.input_ids));
  EXPECT_THROW(decoder.feed({}), Error);
  EXPECT_THROW(decoder.feed({1}, 2), Error);
  EXPECT_THROW(decoder.feed({1, 2}), Error);
}

}  // namespace
}  // namespace strata::test
