// Experts spread over ranks: the sequences are split, every rank has the whole model but for its experts, and
// together they compute what one rank computes.
#include <gtest/gtest.h>

#include <cmath>

#include "support/op_case.h"
#include "support/ranks.h"
#include "support/small_model.h"

namespace strata::test {
namespace {

constexpr std::int64_t kLength = 13;

model::ModelConfig spread_config(residual::Type type = residual::Type::Vanilla) {
  residual::Config r;
  r.type = type;
  if (r.has_blocks()) r.num_blocks = 3;
  model::ModelConfig c = small_config(r);
  c.n_routed_experts = 8;
  c.num_experts_per_tok = 3;
  c.num_nextn_predict_layers = 1;
  return c;
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}
void add(std::vector<double>& to, const std::vector<double>& from) {
  to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

// Tokens in order of rank; sums of losses, gradients and loads.
ModelResult together(const std::vector<ModelResult>& ranks) {
  ModelResult all;
  all.loads.resize(ranks.front().loads.size());
  for (const ModelResult& r : ranks) {
    all.lm_loss += r.lm_loss;
    all.aux_loss += r.aux_loss;
    all.mtp_loss += r.mtp_loss;
    append(all.token_loss, r.token_loss);
    append(all.logits, r.logits);
    for (const auto& [name, g] : r.grads) add(all.grads[name], g);
    for (const auto& [name, w] : r.weights) all.weights[name] = w;
    for (std::size_t l = 0; l < r.loads.size(); ++l) add(all.loads[l], r.loads[l]);
  }
  return all;
}

bool is_expert(const std::string& name) { return name.find(".mlp.experts.") != std::string::npos; }

// rows: sequences of each rank.
std::vector<ModelResult> run_spread(const model::ModelConfig& config, const std::vector<std::int64_t>& rows,
                                    const HostBatch& batch, const ModelRun& run) {
  std::vector<HostBatch> parts;
  std::int64_t first = 0;
  for (const std::int64_t n : rows) parts.push_back(batch.slice(first, first + n)), first += n;
  std::vector<ModelResult> results(rows.size());
  on_ranks(int(rows.size()), [&](comm::Communicator& ranks) {
    ModelRun mine = run;
    mine.experts = &ranks;
    mine.counts = model::count(batch);
    results[ranks.rank()] = run_model(config, parts[ranks.rank()], mine);
  });
  return results;
}

void expect_one_rank(const model::ModelConfig& config, const std::vector<std::int64_t>& rows,
                     const ModelRun& run = {}, double tolerance = 1e-12) {
  std::int64_t total = 0;
  for (const std::int64_t n : rows) total += n;
  const HostBatch batch = small_batch(config, total, kLength);
  ModelRun plain = run;
  plain.tape.recompute = {};
  plain.recompute_layers = false;
  const ModelResult one = run_model(config, batch, plain);
  const std::vector<ModelResult> ranks = run_spread(config, rows, batch, run);
  const ModelResult all = together(ranks);
  EXPECT_NEAR(all.lm_loss, one.lm_loss, tolerance * 10);
  EXPECT_NEAR(all.aux_loss, one.aux_loss, tolerance * 10);
  EXPECT_NEAR(all.mtp_loss, one.mtp_loss, tolerance * 10);
  EXPECT_LE(relative_error(all.token_loss, one.token_loss), tolerance);
  EXPECT_LE(relative_error(all.logits, one.logits), tolerance);
  EXPECT_EQ(all.loads, one.loads);
  ASSERT_EQ(all.grads.size(), one.grads.size());
  for (const auto& [name, g] : one.grads) EXPECT_LE(relative_error(all.grads.at(name), g), tolerance) << name;
  EXPECT_EQ(all.weights, one.weights) << "initial values go by name";
  for (const auto& [name, g] : one.grads) {
    std::size_t owners = 0;
    for (const ModelResult& r : ranks) owners += r.grads.contains(name);
    EXPECT_EQ(owners, is_expert(name) ? 1 : rows.size()) << name;
  }
}

// A bias that sends every token to the experts 4, 5 and 6.
void crowd(ParameterStore& store) {
  for (const auto& [name, found] : store.by_name())
    if (name.ends_with("e_score_correction_bias")) store.set(name, {0, 0, 0, 0, 9, 9, 9, 0});
}

TEST(ExpertParallel, OneTwoFourAndEightRanks) {
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{2}, {2, 2}, {1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}})
    expect_one_rank(spread_config(), rows);
}
TEST(ExpertParallel, EveryResidual) {
  for (const residual::Type type :
       {residual::Type::AttnRes, residual::Type::Msar, residual::Type::Mhc, residual::Type::AttnResMhc})
    expect_one_rank(spread_config(type), {2, 1});
}
TEST(ExpertParallel, WithoutSharedExperts) {
  model::ModelConfig c = spread_config();
  c.n_shared_experts = 0;
  c.scoring_func = model::ScoringFunc::Softmax;
  expect_one_rank(c, {1, 2});
}
TEST(ExpertParallel, ARankWithoutSequences) {
  expect_one_rank(spread_config(), {2, 0});
  expect_one_rank(spread_config(residual::Type::Msar), {0, 1, 0, 2});
}
TEST(ExpertParallel, AllTokensToOneRank) {
  ModelRun run;
  run.prepare = crowd;
  expect_one_rank(spread_config(), {2, 1}, run);
  expect_one_rank(spread_config(), {0, 2, 1, 0}, run);
}
TEST(ExpertParallel, Recomputed) {
  ModelRun selective, full, later;
  selective.tape.recompute = {.norm = true, .activation = true, .attention = true, .depth_retrieval = true};
  full.recompute_layers = true;
  later.when = Weights::Later;
  for (const ModelRun& run : {selective, full, later}) {
    expect_one_rank(spread_config(residual::Type::Msar), {1, 2}, run);
    expect_one_rank(spread_config(), {2, 0}, run);
  }
}
TEST(ExpertParallel, MicroBatches) {
  ModelRun run;
  run.micro_batch = 1;
  run.recompute_layers = true;
  expect_one_rank(spread_config(), {3, 3}, run);
}
TEST(ExpertParallel, Bfloat16) {
  ModelRun run;
  run.compute = DType::BFloat16;
  const model::ModelConfig c = spread_config();
  const HostBatch batch = small_batch(c, 2, kLength);
  const ModelResult one = run_model(c, batch, run), all = together(run_spread(c, {1, 1}, batch, run));
  EXPECT_LE(relative_error(all.logits, one.logits), 1e-2);
  for (const auto& [name, g] : one.grads) EXPECT_LE(relative_error(all.grads.at(name), g), 2e-2) << name;
}

}  // namespace
}  // namespace strata::test
