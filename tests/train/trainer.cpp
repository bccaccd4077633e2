// The training step as it is put together: schedule, clipping, optimiser, router biases, accumulation,
// skipped steps, evaluation and recompute, against updates made by hand from the gradients.
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "checkpoint/store.h"
#include "reference/optimizer.h"
#include "support/op_case.h"
#include "support/small_model.h"
#include "support/temp_folder.h"
#include "support/test_device.h"
#include "train/checkpointing.h"

namespace strata::test {
namespace {

using train::StepResult;
constexpr double kPeak = 0.02, kSpeed = 0.03;
constexpr std::int64_t kRows = 4, kLength = 11, kChosen = 2;  // kChosen experts of five a token

// Everything at once: MSAR, MoE with both auxiliary losses, multi-token prediction, warm-up and cosine decay.
train::RunConfig small_run() {
  train::RunConfig c;
  residual::Config r;
  r.type = residual::Type::Msar, r.num_blocks = 2, r.streams = 2;
  c.model = small_config(r);
  c.model.num_hidden_layers = 2, c.model.num_nextn_predict_layers = 1;
  c.router.bias_update_speed = kSpeed;
  c.training.seq_length = kLength, c.training.micro_batch_size = 2, c.training.global_batch_size = kRows;
  c.training.train_iters = 10;
  c.optimizer = {.lr = kPeak, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.3, .clip_grad = 0.5};
  c.lr_schedule.lr_decay_style = optim::LrDecayStyle::Cosine;
  c.lr_schedule.lr_warmup_iters = 4, c.lr_schedule.min_lr = 0.005;
  c.precision.compute = train::Compute::Float64;
  return c;
}

double scheduled(std::int64_t step) {
  if (step <= 4) return kPeak * double(step) / 4;
  return 0.005 + (kPeak - 0.005) * (1 + std::cos(M_PI * double(step - 4) / 6)) / 2;
}

// A trainer with weights away from their initial values, so that every gradient is alive.
struct Training {
  explicit Training(train::RunConfig c = small_run()) : config(std::move(c)), device(device_options()) {
    trainer.emplace(config, device);
    for (const auto& [name, found] : trainer->store().by_name()) {
      if (!found.parameter) continue;
      const Philox random(5, "moved " + name);
      std::vector<double> values(found.slice.dims.numel());
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = (name.ends_with("norm.weight") ? 1 : 0) + 0.3 * random.normal(i);
      trainer->store().set(name, values);
    }
  }
  train::Trainer* operator->() { return &*trainer; }
  std::vector<double> host(const Tensor& t) { return to_host(device, t, "test"); }

  Values weights() {  // router biases too
    Values all;
    for (const auto& [name, found] : trainer->store().by_name()) all[name] = host(found.master());
    return all;
  }
  Values grads() {
    Values all;
    for (const auto& [name, found] : trainer->store().by_name())
      if (found.parameter) all[name] = host(found.grad());
    return all;
  }
  std::vector<std::vector<double>> loads() {
    std::vector<std::vector<double>> all;
    for (const auto& [layer, moe] : trainer->moes()) all.push_back(host(moe->load()));
    return all;
  }
  // All that goes on to the next step.
  Values state() {
    Values all = weights();
    for (const auto& [name, moment] : trainer->optimizer().state()) all[name] = host(moment);
    for (const auto& load : loads()) all["load " + std::to_string(all.size())] = load;
    return all;
  }

  train::RunConfig config;
  device::Device device;
  std::optional<train::Trainer> trainer;
};

// The weights of a run, updated from its gradients by the reference.
class ByHand {
 public:
  explicit ByHand(Training& run, std::int64_t updates = 0) : run_(run), updates_(updates) {
    const Values weights = run.weights();
    for (const auto& [name, g] : run.grads()) {
      const reference::Array zeros = array(std::vector<double>(g.size()));
      weights_.emplace(name, State{array(weights.at(name)), zeros, zeros});
    }
  }
  double norm() {
    std::vector<reference::Array> all;
    for (const auto& [name, g] : run_.grads()) all.push_back(array(g));
    return reference::global_norm(all);
  }
  // Before the trainer's own update, which leaves the gradients.
  void update(double lr) {
    const optim::OptimizerSection& o = run_.config.optimizer;
    const double factor = reference::clip_factor(norm(), o.clip_grad);
    ++updates_;
    for (auto& [name, g] : run_.grads()) {
      for (double& x : g) x *= factor;
      const bool decays = run_.trainer->store().by_name().at(name).parameter->decay == Decay::Yes;
      State& s = weights_.at(name);
      const double decay = decays ? o.weight_decay : 0;
      if (o.type == optim::OptimizerType::AdamW)
        reference::adamw_step({lr, o.beta1, o.beta2, o.eps, decay}, updates_, array(g), s.weight, s.m, s.v);
      else
        reference::sgd_step({lr, o.momentum, decay}, array(g), s.weight, s.m);
    }
  }
  void check(const std::string& when) {
    const Values all = run_.weights();
    for (const auto& [name, s] : weights_)
      EXPECT_LE(relative_error(all.at(name), s.weight.data), 1e-13) << name << " " << when;
  }

 private:
  struct State {
    reference::Array weight, m, v;
  };
  static reference::Array array(const std::vector<double>& v) {
    return reference::Array({std::int64_t(v.size())}, v);
  }
  Training& run_;
  std::int64_t updates_;
  std::map<std::string, State> weights_;
};

HostBatch batch_of(const Training& run, std::uint64_t seed, std::int64_t rows = kRows) {
  return small_batch(run.config.model, rows, kLength, seed);
}

void expect_same(const Values& a, const Values& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a) EXPECT_EQ(values, b.at(name)) << name;
}

TEST(Trainer, NoNumberHasTheSignOfItsNaN) {
  Training run;
  for (const auto& [name, found] : run->store().by_name())
    if (found.parameter)
      run->store().set(name, std::vector<double>(std::size_t(found.slice.dims.numel()), -NAN));
  const StepResult r = run->gradients(small_batch(run.config.model, kRows, kLength));
  for (const double number : {r.lm_loss, r.mtp_loss, r.loss, r.grad_norm}) {
    EXPECT_TRUE(std::isnan(number));
    EXPECT_FALSE(std::signbit(number));
  }
}

TEST(Trainer, StepsByTheScheduleWithClippedAdamW) {
  Training run;
  ByHand hand(run);
  for (std::int64_t step = 1; step <= 6; ++step) {
    const StepResult r = run->gradients(batch_of(run, std::uint64_t(step)));
    EXPECT_EQ(r.step, step);
    EXPECT_DOUBLE_EQ(r.learning_rate, scheduled(step)) << step;
    EXPECT_NEAR(r.grad_norm, hand.norm(), 1e-13 * r.grad_norm) << step;
    EXPECT_GT(r.grad_norm, run.config.optimizer.clip_grad) << "the test is to see clipping";
    hand.update(scheduled(step));
    run->update(r);
    EXPECT_EQ(run->steps(), step);
    hand.check(concat("after step ", step));
  }
}

TEST(Trainer, ClipsOnlyAboveTheThresholdAndCountsATiedWeightOnce) {
  train::RunConfig config = small_run();
  config.model.tie_word_embeddings = true;
  config.optimizer = {.type = optim::OptimizerType::Sgd, .lr = kPeak, .momentum = 0.7, .weight_decay = 0.1};
  double norm = 1;
  for (const double part : {0.0, 0.25, 4.0}) {  // clip_grad in gradient norms
    config.optimizer.clip_grad = part * norm;
    Training run(config);
    ByHand hand(run);
    const StepResult r = run->gradients(batch_of(run, 1));
    norm = r.grad_norm;
    EXPECT_NEAR(norm, hand.norm(), 1e-13 * norm);
    hand.update(scheduled(1));
    run->update(r);
    hand.check(concat("clip_grad ", config.optimizer.clip_grad));
  }
}

TEST(Trainer, StepIsGradientsThenUpdate) {
  Training parts, whole;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const StepResult a = parts->gradients(batch_of(parts, step));
    parts->update(a);
    const StepResult b = whole->step(batch_of(whole, step));
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
    EXPECT_EQ(b.step, std::int64_t(step));
  }
  expect_same(parts.state(), whole.state());
}

TEST(Trainer, LossIsTheSumOfItsPartsAndTokenLossesAreItsTokens) {
  Training run;
  struct : Observer {
    void observe(const std::string&, const Tensor&) override {}
  } observer;
  const HostBatch batch = batch_of(run, 1);
  run->gradients(batch_of(run, 2), &observer);
  const StepResult r = run->gradients(batch, &observer);
  EXPECT_GT(r.aux_loss, 0);
  EXPECT_GT(r.mtp_loss, 0);
  EXPECT_DOUBLE_EQ(r.loss, r.lm_loss + r.aux_loss + run.config.model.mtp_loss_coef * r.mtp_loss);
  EXPECT_EQ(r.tokens, kRows * kLength);
  ASSERT_EQ(run->token_losses().size(), std::size_t(kRows * kLength));
  double sum = 0, counted = 0;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    counted += batch.labels[i] >= 0;
    sum += run->token_losses()[i];
    EXPECT_EQ(run->token_losses()[i] == 0, batch.labels[i] < 0) << i;
  }
  EXPECT_NEAR(sum / counted, r.lm_loss, 1e-12);
}

// Rows with many, few and no labels: a mean of the micro-batches' means would show.
TEST(Trainer, MicroBatchesAddUpToTheSameStep) {
  train::RunConfig config = small_run();
  config.training.micro_batch_size = kRows;
  Training whole(config);
  HostBatch batch = batch_of(whole, 1);
  for (std::size_t i = 0; i < batch.labels.size(); ++i)
    if (i < kLength || (i < 2 * kLength && i % 4 != 0)) batch.labels[i] = kIgnoreLabel;
  const StepResult want = whole->gradients(batch);
  const Values grads = whole.grads();
  for (const std::int64_t rows : {2, 1, 3}) {
    config.training.micro_batch_size = rows;
    Training run(config);
    const StepResult r = run->gradients(batch);
    EXPECT_NEAR(r.lm_loss, want.lm_loss, 1e-12) << rows;
    EXPECT_NEAR(r.aux_loss, want.aux_loss, 1e-12) << rows;
    EXPECT_NEAR(r.mtp_loss, want.mtp_loss, 1e-12) << rows;
    EXPECT_NEAR(r.grad_norm, want.grad_norm, 1e-12 * want.grad_norm) << rows;
    EXPECT_EQ(r.tokens, want.tokens) << rows;
    EXPECT_EQ(run.loads(), whole.loads()) << rows;
    for (const auto& [name, g] : run.grads())
      EXPECT_LE(relative_error(g, grads.at(name)), 1e-12) << name << " " << rows;
  }
}

// Neither NaN, from a mean over no label, nor a smaller share for the other micro-batch.
TEST(Trainer, AMicroBatchWithoutLabelsAddsNothing) {
  train::RunConfig config = small_run();
  config.model.seq_aux_loss_coef = config.model.router_z_loss_coef = 0;
  Training half(config), run(config);
  HostBatch batch = batch_of(run, 1);
  std::fill(batch.labels.begin() + 2 * kLength, batch.labels.end(), kIgnoreLabel);
  const StepResult want = half->gradients(batch.slice(0, 2)), r = run->gradients(batch);
  EXPECT_EQ(r.loss, want.loss);
  EXPECT_EQ(r.grad_norm, want.grad_norm);
  expect_same(half.grads(), run.grads());
  std::fill(batch.labels.begin(), batch.labels.end(), kIgnoreLabel);
  const StepResult none = run->gradients(batch);  // no label at all
  EXPECT_EQ(none.loss, 0);
  EXPECT_EQ(none.grad_norm, 0);
}

// Memory starts as NaN here: what nobody writes shows.
TEST(Trainer, ExpertsWithoutTokensGetGradientsOfZero) {
  for (const train::Compute compute : {train::Compute::Float64, train::Compute::BFloat16}) {
    train::RunConfig config = small_run();
    config.model.n_routed_experts = 256;
    config.precision.compute = compute;
    Training run(config);
    ASSERT_TRUE(run.device.options().fill_nan);
    run->gradients(small_batch(config.model, 1, 8));
    const Values grads = run.grads();
    const std::vector<double> load = run.loads().at(0);
    for (const auto& [name, g] : grads)
      for (const double x : g) ASSERT_TRUE(std::isfinite(x)) << name;
    EXPECT_GT(std::count(load.begin(), load.end(), 0), 200);
    for (std::size_t e = 0; e < load.size(); ++e)
      for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
        const auto& g = grads.at(concat("model.layers.1.mlp.experts.", e, ".", part, ".weight"));
        EXPECT_EQ(std::all_of(g.begin(), g.end(), [](double x) { return x == 0; }), load[e] == 0) << e;
      }
  }
}

TEST(Trainer, GradientsStartFromZero) {
  Training once, twice;
  once->gradients(batch_of(once, 1));
  twice->gradients(batch_of(twice, 2));
  const StepResult r = twice->gradients(batch_of(twice, 1));
  expect_same(once.grads(), twice.grads());
  EXPECT_EQ(r.step, 1);
  EXPECT_EQ(r.lm_loss, once->gradients(batch_of(once, 1)).lm_loss);
}

const std::vector<std::string> kRouterBiases{"model.layers.1.mlp.gate.e_score_correction_bias",
                                             "model.layers.2.mlp.gate.e_score_correction_bias"};

// Experts 0 and 1 are taken by every token, the rest by none.
TEST(Trainer, RouterBiasesFallWhereLoadIsAboveTheMeanAndRiseBelow) {
  Training run;
  for (const std::string& name : kRouterBiases) run->store().set(name, {9, 8, -9, -8, -7});
  run->gradients(batch_of(run, 1));
  run->reset_loads();
  const StepResult r = run->gradients(batch_of(run, 1));
  const double all = kRows * kLength;
  for (const auto& load : run.loads()) EXPECT_EQ(load, (std::vector<double>{all, all, 0, 0, 0}));
  run->update(r);
  for (const std::string& name : kRouterBiases)
    EXPECT_EQ(run.weights().at(name),
              (std::vector<double>{9 - kSpeed, 8 - kSpeed, -9 + kSpeed, -8 + kSpeed, -7 + kSpeed}))
        << name;
  for (const auto& load : run.loads()) EXPECT_EQ(load, std::vector<double>(5, 0));
}

TEST(Trainer, RouterBiasesFollowTheLoadsOfEachStep) {
  Training run;
  std::vector<std::vector<double>> want(2, std::vector<double>(5, 0.0));
  for (std::uint64_t step = 1; step <= 4; ++step) {
    const StepResult r = run->gradients(batch_of(run, step));
    for (std::size_t k = 0; k < want.size(); ++k) {
      const std::vector<double> load = run.loads().at(k);
      const double mean = double(kRows * kLength * kChosen) / 5;
      double sum = 0;
      for (std::size_t e = 0; e < 5; ++e) {
        sum += load[e];
        want[k][e] += load[e] < mean ? kSpeed : load[e] > mean ? -kSpeed : 0;
      }
      EXPECT_EQ(sum, 5 * mean) << "of one step, all its micro-batches";
    }
    run->update(r);
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_EQ(run.weights().at(kRouterBiases[k]), want[k]) << step;
  }
}

TEST(Trainer, RouterBiasesStayUnderEvenLoadAndWithoutBalancing) {
  for (const bool even : {true, false}) {
    train::RunConfig config = small_run();
    if (even)
      config.model.num_experts_per_tok = 5;
    else
      config.router.bias_update_speed = 0;
    Training run(config);
    run->step(batch_of(run, 1));
    for (const std::string& name : kRouterBiases)
      EXPECT_EQ(run.weights().at(name), std::vector<double>(5, 0)) << even;
    for (const auto& load : run.loads()) EXPECT_EQ(load, std::vector<double>(5, 0)) << even;
  }
}

// Steps of 0.001 beside 0.5 are below what bfloat16 resolves.
TEST(Trainer, SmallStepsOfRouterBiasesAreKeptInBFloat16RunsAndCheckpoints) {
  train::RunConfig config = small_run();
  config.precision.compute = train::Compute::BFloat16;
  config.router.bias_update_speed = 0.001;
  config.model.num_nextn_predict_layers = 0;
  Training run(config), again(config);
  const std::string& name = kRouterBiases[0];
  run->store().set(name, {9, 8, 0.5, -8, -7});  // experts 0 and 1 take every token
  for (std::uint64_t step = 1; step <= 100; ++step) run->step(small_batch(config.model, 1, 4, step));
  EXPECT_NEAR(run.weights().at(name)[2], 0.6, 2e-6);

  const TempFolder folder;
  checkpoint::CheckpointStore store(folder.path(), {});
  const train::Progress progress{.step = 100, .updates = 100, .data = "none", .losses = {}};
  store.save(train::capture(*run.trainer, progress, "{}", "{}"));
  train::restore(*again.trainer, checkpoint::open_checkpoint(folder / "step_00000100"));
  expect_same(run.state(), again.state());  // float32 moments as well
  run->step(small_batch(config.model, 1, 4, 101));
  again->step(small_batch(config.model, 1, 4, 101));
  expect_same(run.state(), again.state());
}

TEST(Trainer, EvaluatesToTheLossOfTheGradients) {
  Training run;
  for (const std::int64_t rows : {4, 3, 1}) {
    const HostBatch batch = batch_of(run, 7, rows);
    EXPECT_NEAR(run->evaluate(batch), run->gradients(batch).lm_loss, 1e-13) << rows;
  }
}

TEST(Trainer, EvaluationLeavesTheRunAsItIs) {
  Training plain, watched;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const StepResult a = plain->step(batch_of(plain, step));
    const double before = watched->evaluate(batch_of(watched, 9));
    const StepResult b = watched->gradients(batch_of(watched, step));
    EXPECT_EQ(watched->evaluate(batch_of(watched, 9)), before) << step;
    watched->update(b);
    watched->evaluate(batch_of(watched, 10, 3));
    EXPECT_EQ(a.loss, b.loss) << step;
    EXPECT_EQ(a.learning_rate, b.learning_rate) << step;
    EXPECT_EQ(a.grad_norm, b.grad_norm) << step;
    expect_same(plain.state(), watched.state());
  }
}

TEST(Trainer, ASkippedStepChangesNothingButTheLearningRate) {
  Training run;
  ByHand hand(run);
  const Values before = run.state();
  run->gradients(batch_of(run, 1));
  EXPECT_NE(run.loads().at(0), std::vector<double>(5, 0));
  for (const Bucket& b : run->store().buckets())
    run.device.compute().run(kernels::Fill{.y = b.grad, .value = NAN});
  run->skip();
  expect_same(before, run.state());
  EXPECT_EQ(run->steps(), 1);
  EXPECT_EQ(run->optimizer().steps(), 0);

  const StepResult r = run->gradients(batch_of(run, 2));
  EXPECT_EQ(r.step, 2);
  EXPECT_DOUBLE_EQ(r.learning_rate, scheduled(2));
  hand.update(scheduled(2));  // its first update: bias correction at 1
  run->update(r);
  hand.check("after a skipped step");
  EXPECT_EQ(run->steps(), 2);
}

TEST(Trainer, GoesOnFromAStepAndACountOfUpdates) {
  Training run;
  ByHand hand(run, 2);
  run->set_steps(5, 2);
  const StepResult r = run->gradients(batch_of(run, 1));
  EXPECT_EQ(r.step, 6);
  EXPECT_DOUBLE_EQ(r.learning_rate, scheduled(6));
  hand.update(scheduled(6));
  run->update(r);
  hand.check("at step 6, update 3");
}

TEST(Trainer, SeedChoosesTheInitialWeights) {
  const auto embedding = [](std::int64_t seed) {
    train::RunConfig config = small_run();
    config.run.seed = seed;
    device::Device device(device_options());
    train::Trainer trainer(config, device);
    return to_host(device, trainer.store().by_name().at("model.embed_tokens.weight").master(), "test");
  };
  const std::vector<double> a = embedding(1), b = embedding(2);
  EXPECT_EQ(a, embedding(1));
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), std::not_equal_to<>()));
}

}  // namespace
}  // namespace strata::test
