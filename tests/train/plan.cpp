// What a dry run says of memory and operations, against steps that were done and counts made by hand.
#include <gtest/gtest.h>

#include "support/small_model.h"
#include "support/test_device.h"
#include "train/dry_run.h"
#include "train/layout_plan.h"
#include "train/step_metrics.h"
#include "train/throughput.h"

namespace strata::test {
namespace {

using train::DryRun;
using train::Granularity;
using train::RunConfig;

constexpr std::int64_t kLength = 12;

residual::Config variant(const std::string& name) {
  for (const Variant& v : residual_variants())
    if (v.name == name) return v.config;
  throw Error(concat("no variant ", name));
}

RunConfig run_of(const residual::Config& residual) {
  RunConfig c;
  c.model = small_config(residual);
  c.training.seq_length = kLength, c.training.micro_batch_size = 2, c.training.global_batch_size = 4;
  c.router.bias_update_speed = 0.1;
  return c;
}

// Two steps, the first one watched as a run watches it, and an evaluation.
train::Memory measured(const RunConfig& config) {
  device::Device device;
  train::Trainer trainer(config, device);
  train::Memory m;
  const auto read = [&](auto member) {
    for (int p = 0; p < device::kPurposes; ++p)
      m.use[p].*member = device.memory().use(device::Purpose(p)).*member;
    m.total.*member = device.memory().total().*member;
  };
  read(&device::MemoryUse::now);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const auto batch = small_batch(config.model, 4, kLength, step, config.data.reset_attention_mask);
    train::StepObserver observer(device);
    const bool watched = step == 1 && config.logging.metrics_interval > 0;
    trainer.update(trainer.gradients(batch, watched ? &observer : nullptr));
    trainer.evaluate(batch);
  }
  read(&device::MemoryUse::peak);
  m.reserved = device.memory().reserved();
  return m;
}

void expect_planned(const RunConfig& config, const std::string& what) {
  const train::Memory plan = train::dry_run(config).memory, run = measured(config);
  EXPECT_EQ(plan.total.peak, run.total.peak) << what;
  EXPECT_EQ(plan.total.now, run.total.now) << what;
  for (int p = 0; p < device::kPurposes; ++p) {
    EXPECT_EQ(plan.use[p].peak, run.use[p].peak) << what << ", " << device::name_of(device::Purpose(p));
    EXPECT_EQ(plan.use[p].now, run.use[p].now) << what << ", " << device::name_of(device::Purpose(p));
  }
#if !defined(__SANITIZE_ADDRESS__)  // there, a run takes no arenas
  EXPECT_EQ(plan.reserved, run.reserved) << what;
#endif
}

// Every byte: the same code allocates, and no size depends on data.
TEST(Plan, PeaksAreThoseOfTheRun) {
  for (const char* name : {"vanilla", "attnres_block", "msar_block", "mhc", "attnres_mhc"})
    for (const Granularity granularity : {Granularity::None, Granularity::Selective, Granularity::Full}) {
      RunConfig c = run_of(variant(name));
      c.recompute.granularity = granularity;
      expect_planned(c, concat(name, ", recompute ", name_of(granularity)));
    }
}

TEST(Plan, PeaksFollowWhatARunIsTold) {
  const RunConfig base = run_of(variant("msar_block"));
  std::vector<std::pair<const char*, RunConfig>> runs(6, {"", base});
  runs[0] = {"bfloat16", base}, runs[0].second.precision.compute = train::Compute::BFloat16;
  runs[1] = {"float64", base}, runs[1].second.precision.compute = train::Compute::Float64;
  runs[2] = {"multi-token prediction", base}, runs[2].second.model.num_nextn_predict_layers = 1;
  runs[3] = {"documents", base}, runs[3].second.data.reset_attention_mask = true;
  runs[4] = {"sgd", base}, runs[4].second.optimizer.type = optim::OptimizerType::Sgd;
  runs[5] = {"not watched", base}, runs[5].second.logging.metrics_interval = 0;
  const train::Memory first = train::dry_run(base).memory;
  for (const auto& [what, config] : runs) {
    expect_planned(config, what);
    const bool shows = train::dry_run(config).memory.total.peak != first.total.peak;
    EXPECT_EQ(shows, config.logging.metrics_interval > 0)
        << what << ": a closer look adds nothing to the peak";
  }
}

TEST(Plan, EvaluationHoldsNeitherGradientsNorMoments) {
  const RunConfig config = run_of({});
  device::Device device;
  train::Trainer trainer(config, device, train::Use::Evaluation);
  trainer.evaluate(small_batch(config.model, 2, kLength));
  for (const auto purpose : {device::Purpose::Gradients, device::Purpose::OptimizerState})
    EXPECT_EQ(device.memory().use(purpose).peak, 0) << device::name_of(purpose);
  EXPECT_GT(device.memory().use(device::Purpose::Parameters).peak, 0);
}

// A dense and a MoE layer; all sizes different.
RunConfig two_layers() {
  RunConfig c;
  model::ModelConfig& m = c.model;
  m.vocab_size = 50, m.hidden_size = 24, m.num_hidden_layers = 2, m.num_attention_heads = 3;
  m.attention = model::Attention::Mla;
  m.kv_lora_rank = 10, m.qk_nope_head_dim = 6, m.qk_rope_head_dim = 4, m.v_head_dim = 7;
  m.intermediate_size = 40, m.moe_intermediate_size = 11, m.first_k_dense_replace = 1;
  m.n_routed_experts = 8, m.n_shared_experts = 2, m.num_experts_per_tok = 3;
  c.training.seq_length = 16, c.training.micro_batch_size = 2, c.training.global_batch_size = 4;
  return c;
}

struct HandCount {
  // Multiplications with an addition, per token; a query meets 1 to 16 keys, 8.5 on average.
  double attention_weights = 24 * 3 * (6 + 4) + 24 * (10 + 4) + 10 * 3 * (6 + 7) + 3 * 7 * 24;
  double attention = 3 * 8.5 * ((6 + 4) + 7);
  double dense = 3 * 24 * 40, router = 24 * 8, shared = 3 * 24 * 2 * 11, experts = 3 * 3 * 24 * 11;
  double head = 24 * 50;
};

std::int64_t kept(const RunConfig& config) {
  std::int64_t sum = 0;
  for (const auto& [op, bytes] : train::dry_run(config).kept) sum += bytes;
  return sum;
}

// Gate and up of dense, shared and routed experts wait in float32; of an embedding, its ids.
TEST(Plan, WhatWaitsForBackwardByHand) {
  RunConfig config = two_layers();
  const auto kept_by = train::dry_run(config).kept;
  const std::int64_t tokens = 2 * 16;
  EXPECT_EQ(kept_by.at("swiglu"), 4 * tokens * 2 * (40 + 2 * 11 + 3 * 11));
  EXPECT_EQ(kept_by.at("embedding"), 4 * tokens);
  const std::int64_t none = kept(config);
  EXPECT_LE(none, train::dry_run(config).memory.use[int(device::Purpose::Activations)].peak);
  config.recompute.granularity = Granularity::Selective;
  const std::int64_t selective = kept(config);
  config.recompute.granularity = Granularity::Full;
  EXPECT_LT(selective, none);
  EXPECT_LT(kept(config), selective);
}

TEST(Plan, OperationsOfTwoLayersByHand) {
  const HandCount hand;
  RunConfig config = two_layers();
  const DryRun d = train::dry_run(config);
  EXPECT_DOUBLE_EQ(d.forward.products,
                   2 * (2 * hand.attention_weights + hand.dense + hand.router + hand.shared + hand.head));
  EXPECT_DOUBLE_EQ(d.forward.experts, 2 * hand.experts) << "those of a token, not all";
  EXPECT_DOUBLE_EQ(d.forward.attention, 2 * 2 * hand.attention) << "causal";
  EXPECT_EQ(d.forward.residual, 0);
  for (const auto kind : train::kFlopKinds) EXPECT_EQ(d.backward.*kind, 2 * d.forward.*kind);
  EXPECT_DOUBLE_EQ(train::model_flops_per_token(config), d.model_flops());

  // The head's logits are neither kept nor computed twice; full recompute runs all layers again.
  EXPECT_EQ(d.recompute.total(), 0);
  config.recompute.granularity = Granularity::Selective;
  const DryRun selective = train::dry_run(config);
  EXPECT_EQ(selective.recompute.products, 0);
  EXPECT_NEAR(selective.recompute.attention, d.forward.attention, 1e-6);
  config.recompute.granularity = Granularity::Full;
  const DryRun full = train::dry_run(config);
  EXPECT_NEAR(full.recompute.total(), d.forward.total() - 2 * hand.head, 1e-6) << "all layers";
  const int activations = int(device::Purpose::Activations);
  EXPECT_LT(full.memory.use[activations].peak, selective.memory.use[activations].peak);
  EXPECT_LT(selective.memory.use[activations].peak, d.memory.use[activations].peak);
}

// What is called backward is counted there, in every variant: nothing comes twice.
TEST(Plan, BackwardIsTwiceForward) {
  for (const Variant& v : residual_variants()) {
    const RunConfig c = run_of(v.config);
    const DryRun d = train::dry_run(c);
    EXPECT_EQ(d.recompute.total(), 0) << v.name;
    EXPECT_EQ(d.forward.residual > 0, v.name != "vanilla") << v.name;
  }
}

// mHC by hand: per sub-layer phi on n streams, the read, n + 1 products into each stream; the head's gate and
// mix are one job of the residual.
TEST(Plan, OperationsOfHyperConnectionsByHand) {
  RunConfig config = two_layers();
  const DryRun vanilla = train::dry_run(config);
  config.model.residual.type = residual::Type::Mhc, config.model.residual.streams = 4;
  const DryRun d = train::dry_run(config);
  const double n = 4, D = 24, sublayers = 4;
  EXPECT_NEAR(d.forward.products - vanilla.forward.products, 2 * sublayers * (n * n + 2 * n) * n * D, 1e-6);
  EXPECT_NEAR(d.forward.residual, 2 * (sublayers * (n * D + n * (n + 1) * D) + n * n * D + n * D), 1e-6);
}

// Ten thousand million parameters, on any machine.
TEST(Plan, LargeModelsArePlannedWithoutTheirMemory) {
  RunConfig config = two_layers();
  model::ModelConfig& m = config.model;
  m.vocab_size = 129280, m.hidden_size = 2048, m.num_hidden_layers = 24, m.num_attention_heads = 16;
  m.kv_lora_rank = 512, m.qk_nope_head_dim = 128, m.qk_rope_head_dim = 64, m.v_head_dim = 128;
  m.intermediate_size = 10944, m.moe_intermediate_size = 1024, m.n_routed_experts = 64;
  m.num_experts_per_tok = 6;
  m.residual.type = residual::Type::Msar, m.residual.num_blocks = 8;
  config.training.seq_length = 4096, config.training.micro_batch_size = 1;
  const DryRun d = train::dry_run(config);
  const std::int64_t parameters = d.memory.use[int(device::Purpose::Parameters)].peak;
  EXPECT_GT(parameters, std::int64_t(4) * 10'000'000'000);
  EXPECT_EQ(d.memory.use[int(device::Purpose::OptimizerState)].peak, 2 * (parameters - 23 * 64 * 4));
  EXPECT_GT(d.memory.snapshot, 2 * parameters);
}

struct Spread {
  int pipeline, virtual_stages, data, expert;
  std::optional<pipeline::ScheduleKind> schedule;
  std::int64_t sequences;
};

RunConfig spread_run(const residual::Config& residual, const Spread& s) {
  RunConfig c = run_of(residual);
  c.model.n_routed_experts = 6;
  c.training.micro_batch_size = 1, c.training.global_batch_size = s.sequences;
  c.parallel.pipeline_model_parallel_size = s.pipeline;
  c.parallel.virtual_pipeline_model_parallel_size = s.virtual_stages;
  c.parallel.expert_model_parallel_size = s.expert;
  c.parallel.pipeline_schedule = s.schedule;
  return c;
}

// Of the first data-parallel rank of each stage: what two steps, the first one watched, held, and the second
// one sent. Router biases leave all tokens the experts in `crowd`, if there are any.
std::vector<train::RankPlan> measured(const RunConfig& config, const Spread& s,
                                      const std::vector<int>& crowd = {}) {
  std::vector<train::RankPlan> ranks(s.pipeline);
  const HostBatch batch =
      small_batch(config.model, s.sequences, kLength, 1, config.data.reset_attention_mask);
  comm::run_threads(s.pipeline * s.data, [&](comm::World& world) {
    device::Device device;
    const comm::Mesh mesh(world, {s.pipeline, s.data, s.expert});
    train::Trainer trainer(config, device, mesh);
    for (const Buffer& bias : trainer.store().buffers()) {
      std::vector<double> values(std::size_t(bias.dims.numel()), 0);
      for (const int expert : crowd) values[expert] = 100;
      trainer.store().set(bias.name, values);
    }
    train::StepObserver observer(device);
    trainer.update(trainer.gradients(batch, &observer));
    const train::Traffic before = train::sent(trainer);
    trainer.step(batch);
    const train::Traffic sent = train::sent(trainer) - before;
    trainer.evaluate(batch);
    if (mesh.data_rank() != 0) return;
    train::RankPlan& r = ranks[mesh.pipeline_rank()];
    r.sent = sent;
    r.parameters = trainer.store().count();
    r.memory.total = device.memory().total();
    for (int p = 0; p < device::kPurposes; ++p) r.memory.use[p] = device.memory().use(device::Purpose(p));
  });
  return ranks;
}

const Spread kSpreads[] = {{2, 1, 1, 1, {}, 20},
                           {2, 2, 2, 1, {}, 7},
                           {4, 1, 1, 1, pipeline::ScheduleKind::ZeroBubble, 5},
                           {2, 1, 2, 1, pipeline::ScheduleKind::GPipe, 24},
                           {1, 1, 2, 1, {}, 4},
                           {2, 1, 4, 2, {}, 8}};

void expect_same(const comm::Traffic& plan, const comm::Traffic& run, const std::string& what) {
  EXPECT_EQ(plan.bytes, run.bytes) << what;
  EXPECT_EQ(plan.messages, run.messages) << what;
  EXPECT_EQ(plan.messages > 0, plan.bytes > 0) << what;
}

// Memory by purpose to the byte; every byte and message that is sent. Of six experts the first and the fourth
// are on different ranks of two: tokens that choose both are spread evenly over the ranks.
TEST(Plan, RanksHoldAndSendWhatIsPlanned) {
  for (const char* name : {"vanilla", "msar_block", "attnres_mhc"})
    for (const Spread& s : kSpreads) {
      RunConfig config = spread_run(variant(name), s);
      config.optimizer.use_distributed_optimizer = s.sequences % 8 == 0;
      const train::LayoutPlan plan = train::plan_layout(config, s.pipeline * s.data);
      const std::vector<train::RankPlan> run = measured(config, s, {0, 3});
      for (int r = 0; r < s.pipeline; ++r) {
        const train::RankPlan& p = plan.ranks[r];
        const std::string what =
            concat(name, ", ", s.pipeline, " x ", s.data, ", ", s.sequences, " sequences, rank ", r);
        EXPECT_EQ(p.parameters, run[r].parameters) << what;
        expect_same(p.sent.pipeline, run[r].sent.pipeline, what + ", pipeline");
        expect_same(p.sent.experts, run[r].sent.experts, what + ", experts");
        expect_same(p.sent.reductions, run[r].sent.reductions, what + ", reductions");
        EXPECT_EQ(p.memory.total.peak, run[r].memory.total.peak) << what;
        for (int i = 0; i < device::kPurposes; ++i)
          EXPECT_EQ(p.memory.use[i].peak, run[r].memory.use[i].peak)
              << what << ", " << device::name_of(device::Purpose(i));
      }
    }
}

// The first rank has all experts that are chosen; in the last of these it has fewer than a token chooses.
TEST(Plan, WorstIsWhenAllTokensChooseExpertsOfOneRank) {
  const auto expect_worst = [](const RunConfig& config, const Spread& s, const std::vector<int>& crowd) {
    const train::LayoutPlan plan = train::plan_layout(config, s.pipeline * s.data);
    const std::vector<train::RankPlan> run = measured(config, s, crowd);
    for (int r = 0; r < s.pipeline; ++r) {
      const std::string what = concat("experts over ", s.expert, ", rank ", r);
      EXPECT_EQ(plan.ranks[r].worst_peak, run[r].memory.total.peak) << what;
      expect_same(plan.ranks[r].worst_experts, run[r].sent.experts, what);
      EXPECT_EQ(plan.ranks[r].worst_peak > plan.ranks[r].memory.total.peak, s.expert > 1) << what;
    }
  };
  for (const Spread& s : kSpreads) expect_worst(spread_run(variant("msar_block"), s), s, {0, 1});
  const Spread wide{1, 1, 3, 3, {}, 6};
  RunConfig config = spread_run(variant("msar_block"), wide);
  config.model.num_experts_per_tok = 3;
  expect_worst(config, wide, {0, 1, 2});
}

TEST(Plan, CutsAreWhatIsSentAcrossThem) {
  for (const Spread& s : kSpreads) {
    const train::LayoutPlan plan =
        train::plan_layout(spread_run(variant("msar_block"), s), s.pipeline * s.data);
    std::int64_t cuts = 0, sent = 0;
    for (const train::CutPlan& c : plan.cuts) cuts += (c.forward + c.backward) * plan.micro_batches;
    for (const train::RankPlan& r : plan.ranks) sent += r.sent.pipeline.bytes;
    EXPECT_EQ(cuts, sent);
    EXPECT_EQ(int(plan.cuts.size()), s.pipeline * s.virtual_stages - 1);
  }
}

// Each of two ranks keeps half of the rows; the rest go there and back, and so do their gradients. Beside
// them the number of rows for each expert.
TEST(Plan, RowsToExpertsByHand) {
  const Spread s{2, 1, 2, 2, {}, 6};
  const RunConfig config = spread_run(variant("msar_block"), s);
  const model::ModelConfig& m = config.model;
  const std::int64_t rows = kLength * m.num_experts_per_tok / 2, counts = 4 * (m.n_routed_experts + 1);
  const train::LayoutPlan plan = train::plan_layout(config, 4);
  EXPECT_EQ(plan.micro_batches, 3);
  EXPECT_EQ(plan.experts_bytes, 4 * rows * m.hidden_size * 4 + counts);
  EXPECT_EQ(plan.ranks[0].sent.experts.bytes, 3 * plan.experts_bytes) << "one MoE layer of the first two";
  EXPECT_EQ(plan.ranks[0].sent.experts.messages, 3 * 5);
  EXPECT_EQ(plan.ranks[1].sent.experts.bytes, 3 * 2 * plan.experts_bytes);
}

TEST(Throughput, ShareIsModelFlopsOfThePeak) {
  RunConfig config = two_layers();
  const double per_token = train::model_flops_per_token(config);
  config.logging.peak_flops = 100 * per_token;
  const train::Throughput given(config);
  EXPECT_DOUBLE_EQ(given.flops(25), 25 * per_token);
  EXPECT_DOUBLE_EQ(*given.share(25), 0.25);
  config.recompute.granularity = Granularity::Full;
  EXPECT_DOUBLE_EQ(*train::Throughput(config).share(25), 0.25) << "what is recomputed is no work done";
  config.logging.peak_flops = 0;
  EXPECT_FALSE(train::Throughput(config).share(25).has_value());
  config.logging.peak_flops.reset();
  const double share = *train::Throughput(config).share(1e9 / per_token);  // of 1 GFLOP/s
  EXPECT_GT(share, 1e-6) << "below a PFLOP/s";
  EXPECT_LT(share, 1) << "above a GFLOP/s";
}

}  // namespace
}  // namespace strata::test
