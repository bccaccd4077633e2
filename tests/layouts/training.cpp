// Training on meshes of ranks: what the tokens, masks and routers of a real run can do to a layout.
#include <gtest/gtest.h>

#include <cmath>

#include "support/temp_folder.h"
#include "together.h"
#include "train/gather.h"

namespace strata::test {
namespace {

train::RunConfig text_run() {
  train::RunConfig c;
  residual::Config r;
  r.type = residual::Type::Msar, r.num_blocks = 4, r.streams = 2;
  c.model = small_config(r);
  c.model.n_routed_experts = 8, c.model.num_nextn_predict_layers = 1, c.model.tie_word_embeddings = true;
  c.model.vocab_size = 256;
  c.router.bias_update_speed = 0.01;
  c.training.seq_length = 16, c.training.micro_batch_size = 1, c.training.global_batch_size = 8;
  c.training.train_iters = 50;
  c.optimizer.lr = 5e-3;
  c.precision.compute = train::Compute::Float64;
  return c;
}

// What a run gives: rank 0's numbers of every step, and all weights by name.
struct Outcome {
  std::vector<train::StepResult> steps;
  train::TraceTensors weights;
  double validation = 0;
};

Outcome run(const train::RunConfig& base, const Layout& layout, const std::vector<HostBatch>& batches,
            const Prepare& prepare = {}) {
  const train::RunConfig config = on(base, layout);
  Outcome outcome;
  comm::run_threads(layout.ranks(), [&](comm::World& world) {
    const comm::Mesh mesh(world, train::mesh_shape(config, world.size()));
    device::Device device(open_device_options());
    train::Trainer trainer(config, device, mesh);
    if (prepare) prepare(trainer.store());
    std::vector<train::StepResult> steps;
    for (const HostBatch& batch : batches) steps.push_back(trainer.step(batch));
    const double validation = trainer.evaluate(batches.front());
    train::TraceTensors mine;
    for (const auto& [name, found] : trainer.store().by_name())
      if (found.parameter ? trainer.groups().speaks_for(*found.parameter) : mesh.data_rank() == 0)
        mine[name].values = to_host(device, found.master(), "test");
    const train::TraceTensors all = train::gather(mesh.all(), mine);
    if (world.rank() == 0) outcome = {steps, all, validation};
  });
  return outcome;
}

// Bytes of this project's own prose as tokens.
std::vector<HostBatch> text_batches(std::int64_t count, std::int64_t rows, std::int64_t length) {
  const std::string text =
      read_file(STRATA_SOURCE_DIR "/README.md") + read_file(STRATA_SOURCE_DIR "/docs/runs.md");
  std::vector<HostBatch> batches;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    HostBatch b{.rows = rows, .length = length, .input_ids = {}, .labels = {}, .documents = {}};
    for (std::int64_t t = 0; t < rows * length; ++t, ++at) {
      b.input_ids.push_back(std::uint8_t(text.at(at)));
      b.labels.push_back(std::uint8_t(text.at(at + 1)));
    }
    batches.push_back(std::move(b));
  }
  return batches;
}

double worst(const Outcome& a, const Outcome& b) {
  double difference = 0;
  const auto add = [&](double x, double y) {
    difference = std::max(difference, std::abs(x - y) / std::max(1e-3, std::abs(y)));
  };
  EXPECT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    add(a.steps[i].loss, b.steps[i].loss);
    add(a.steps[i].lm_loss, b.steps[i].lm_loss);
    add(a.steps[i].aux_loss, b.steps[i].aux_loss);
    add(a.steps[i].mtp_loss, b.steps[i].mtp_loss);
    add(a.steps[i].grad_norm, b.steps[i].grad_norm);
  }
  add(a.validation, b.validation);
  return difference;
}

double worst_weight(const Outcome& a, const Outcome& b) {
  Values x, y;
  for (const auto& [name, t] : a.weights) x[name] = t.values;
  for (const auto& [name, t] : b.weights) y[name] = t.values;
  EXPECT_EQ(x.size(), y.size());
  return worst_difference(x, y);
}

void expect_equal(const Outcome& got, const Outcome& want, double tolerance, const std::string& what) {
  EXPECT_LE(worst(got, want), tolerance) << what;
  EXPECT_LE(worst_weight(got, want), tolerance) << what;
}

constexpr Layout kMixed{2, 1, 2, 2}, kInterleaved{2, 2, 2, 4}, kExperts{1, 1, 4, 4};

TEST(Layouts, FiftyStepsOnTextEqualOneRank) {
  const train::RunConfig config = text_run();
  const std::vector<HostBatch> text = text_batches(50, 8, 16);
  const Outcome whole = run(config, {}, text);
  EXPECT_LT(whole.steps.back().lm_loss, 0.8 * whole.steps.front().lm_loss) << "it learns";
  for (const Layout& l : {kMixed, kInterleaved}) expect_equal(run(config, l, text), whole, 1e-9, "float64");
}

// Losses and norms were within 3e-6 of one rank's, weights within 5e-5.
TEST(Layouts, FiftyStepsInFloat32StayNear) {
  train::RunConfig config = text_run();
  config.precision.compute = train::Compute::Float32;
  const std::vector<HostBatch> text = text_batches(50, 8, 16);
  const Outcome whole = run(config, {}, text), cut = run(config, kMixed, text),
                again = run(config, kMixed, text);
  EXPECT_LE(worst(cut, whole), 1e-4);
  EXPECT_LE(worst_weight(cut, whole), 1e-3);
  EXPECT_EQ(worst(cut, again), 0) << "the same layout gives the same bits";
  for (const auto& [name, t] : cut.weights) EXPECT_TRUE(t.values == again.weights.at(name).values) << name;
}

TEST(Layouts, AreTheSameWithAndWithoutADistributedOptimizer) {
  train::RunConfig config = text_run();
  const std::vector<HostBatch> text = text_batches(5, 8, 16);
  const Outcome divided = run(config, kInterleaved, text);
  config.optimizer.use_distributed_optimizer = false;
  const Outcome whole = run(config, kInterleaved, text);
  EXPECT_EQ(worst(divided, whole), 0);
  for (const auto& [name, t] : divided.weights)
    EXPECT_TRUE(t.values == whole.weights.at(name).values) << name;
}

// Layer by layer while backward, and the next forward, go on, in small buckets or large ones: the order of
// additions is the same.
TEST(Layouts, SumsAndGathersMayOverlap) {
  train::RunConfig config = text_run();
  const std::vector<HostBatch> text = text_batches(3, 8, 16);
  for (const Layout& l : {kInterleaved, kMixed, kExperts}) {
    config.parallel.overlap_grad_reduce = config.parallel.overlap_param_gather = false;
    config.parallel.ddp_bucket_size = 1;
    const Outcome late = run(config, l, text);
    config.parallel.overlap_grad_reduce = config.parallel.overlap_param_gather = true;
    const Outcome early = run(config, l, text);
    EXPECT_EQ(worst(early, late), 0);
    for (const auto& [name, t] : early.weights) EXPECT_TRUE(t.values == late.weights.at(name).values) << name;
    config.parallel.ddp_bucket_size = 1 << 30;
    expect_equal(run(config, l, text), early, 1e-12, "one bucket");
  }
}

// Five, one, no and two labels that count on four ranks; the third rank's micro-batch is masked altogether.
TEST(Layouts, CountTheLabelsOfTheWholeBatch) {
  train::RunConfig config = text_run();
  config.training.global_batch_size = 4;
  std::vector<HostBatch> batches = text_batches(3, 4, 16);
  for (HostBatch& b : batches) {
    const std::vector<std::int64_t> all =
        std::exchange(b.labels, std::vector<std::int64_t>(64, kIgnoreLabel));
    constexpr int kCounted[] = {5, 1, 0, 2};
    for (int row = 0; row < 4; ++row)
      for (int i = 0; i < kCounted[row]; ++i) b.labels[row * 16 + 3 * i] = all[row * 16 + 3 * i];
  }
  const Outcome whole = run(config, {}, batches);
  for (const Layout& l : {Layout{1, 1, 1, 4}, kExperts, kInterleaved, kMixed})
    expect_equal(run(config, l, batches), whole, 1e-9, concat(l.ranks(), " ranks"));
}

TEST(Layouts, NoLabelCountsAnywhere) {
  train::RunConfig config = text_run();
  std::vector<HostBatch> batches = text_batches(1, 8, 16);
  batches[0].labels.assign(8 * 16, kIgnoreLabel);
  const Outcome got = run(config, kInterleaved, batches), whole = run(config, {}, batches);
  EXPECT_EQ(got.steps[0].lm_loss, 0);
  expect_equal(got, whole, 1e-9, "masked");
}

// Three sequences for four data-parallel ranks, then five: some ranks have none, and take part.
TEST(Layouts, RanksWithoutSequencesTakePart) {
  const train::RunConfig config = text_run();
  for (const std::int64_t rows : {1, 3, 5}) {
    const std::vector<HostBatch> text = text_batches(3, rows, 16);
    const Outcome whole = run(config, {}, text);
    for (const Layout& l : {kExperts, kInterleaved, Layout{1, 1, 8, 8}})
      expect_equal(run(config, l, text), whole, 1e-9, concat(rows, " rows on ", l.ranks(), " ranks"));
  }
}

// The biases leave every token the first two experts: all rows travel to one rank.
TEST(Layouts, AllTokensGoToOneRank) {
  train::RunConfig config = text_run();
  config.router.bias_update_speed = 0;
  const Prepare crowd = [](ParameterStore& store) {
    for (const auto& [name, found] : store.by_name())
      if (name.ends_with("e_score_correction_bias")) store.set(name, {9, 9, 0, 0, 0, 0, 0, 0});
  };
  const std::vector<HostBatch> text = text_batches(3, 8, 16);
  const Outcome whole = run(config, {}, text, crowd);
  for (const Layout& l : {kExperts, kMixed})
    expect_equal(run(config, l, text, crowd), whole, 1e-9, "crowded");
}

TEST(Layouts, RecomputeEqualsNone) {
  train::RunConfig config = text_run();
  const std::vector<HostBatch> text = text_batches(2, 8, 16);
  const Outcome plain = run(config, kInterleaved, text);
  for (const train::Granularity g : {train::Granularity::Full, train::Granularity::Selective}) {
    config.recompute.granularity = g;
    EXPECT_EQ(worst(run(config, kInterleaved, text), plain), 0) << name_of(g);
  }
}

TEST(Layouts, MoreMicroBatchesThanMessagesHaveTagsAreRefused) {
  const train::RunConfig config = text_run();
  device::Device device(open_device_options());
  train::Trainer trainer(config, device);
  EXPECT_EQ(trainer.schedule(8).micro_batches, 8);
  EXPECT_THROW(trainer.schedule((1 << 19) + 1), InputError);
}

TEST(Layouts, ALayoutThatDoesNotFitIsRefused) {
  train::RunConfig config = text_run();
  config.parallel.pipeline_model_parallel_size = 2;
  config.parallel.expert_model_parallel_size = 2;
  EXPECT_THROW(train::mesh_shape(config, 6), InputError);
  EXPECT_EQ(train::mesh_shape(config, 8).data, 4);
}

}  // namespace
}  // namespace strata::test
