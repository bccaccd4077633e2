// A closer look at a step: numbers against their definitions, from tensors that another observer has seen
// whole, and training that does not notice.
#include "train/step_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/op_case.h"
#include "support/small_model.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

constexpr std::int64_t kRows = 4, kLength = 9;

train::RunConfig small_run(residual::Type type) {
  train::RunConfig c;
  residual::Config r;
  r.type = type, r.streams = 2;
  if (r.has_blocks()) r.num_blocks = 2;
  c.model = small_config(r);
  c.model.num_hidden_layers = 3, c.model.num_nextn_predict_layers = 1;
  c.router.bias_update_speed = 0.03;
  c.training.seq_length = kLength, c.training.micro_batch_size = 2, c.training.global_batch_size = kRows;
  c.training.train_iters = 10;
  c.optimizer.lr = 0.02;
  c.precision.compute = train::Compute::Float64;
  return c;
}

struct Training {
  explicit Training(const train::RunConfig& c)
      : config(c), device(device_options()), trainer(config, device) {}
  HostBatch batch(std::uint64_t seed) { return small_batch(config.model, kRows, kLength, seed); }

  train::RunConfig config;
  device::Device device;
  train::Trainer trainer;
};

// Everything of the first micro-batch, whole.
struct Seen final : Observer {
  explicit Seen(device::Device& d) : device(d) {}
  void observe(const std::string& name, const Tensor& value) override {
    values.emplace(name, std::pair{value.dims(), to_host(device, value, "test")});
  }
  device::Device& device;
  std::map<std::string, std::pair<Dims, std::vector<double>>> values;
};

std::map<std::string, double> by_name(const train::Metrics& metrics) {
  std::map<std::string, double> named(metrics.begin(), metrics.end());
  EXPECT_EQ(named.size(), metrics.size()) << "a name used twice";
  return named;
}

// What docs/runs.md says of "depth attention entropy target": sum over sources, mean over views and tokens.
double entropy(const Dims& dims, const std::vector<double>& w) {
  double mean = 0;
  for (std::int64_t r = 0; r < dims[0]; ++r)
    for (std::int64_t t = 0; t < dims[2]; ++t) {
      double h = 0;
      for (std::int64_t n = 0; n < dims[1]; ++n) {
        const double p = w[std::size_t((r * dims[1] + n) * dims[2] + t)];
        h -= p * std::log(p);
      }
      mean += h / std::log(dims[1]) / double(dims[0] * dims[2]);
    }
  return mean;
}

class StepMetrics : public ::testing::TestWithParam<residual::Type> {};

TEST_P(StepMetrics, AreWhatTheFirstMicroBatchShows) {
  Training run(small_run(GetParam()));
  for (std::uint64_t step = 1; step <= 3; ++step) run.trainer.step(run.batch(step));  // queries leave zero
  Seen seen(run.device);
  run.trainer.gradients(run.batch(4), &seen);
  train::StepObserver observer(run.device);
  run.trainer.gradients(run.batch(4), &observer);
  train::Metrics metrics;
  observer.append_to(metrics);
  std::map<std::string, double> got = by_name(metrics);

  std::map<std::string, double> want;
  std::map<int, std::vector<double>> gates;
  std::vector<double> entropies;
  for (const auto& [name, value] : seen.values) {
    const auto& [dims, v] = value;
    const std::string number = name.substr(name.find('.') + 1);
    if (name.starts_with("output.")) {
      double squares = 0;
      for (const double x : v) squares += x * x;
      want["output norm sublayer " + number] = std::sqrt(squares / double(v.size()));
    } else if (name.starts_with("depth_weights.") && dims[1] > 1) {
      entropies.push_back(entropy(dims, v));
      want["depth attention entropy target " + number] = entropies.back();
      EXPECT_LT(entropies.back(), 1 - 1e-9) << "weights that are all even test nothing";
    } else if (name.starts_with("gate.")) {
      for (std::int64_t r = 0; r < dims[1]; ++r) {
        double mean = 0;
        for (std::int64_t t = 0; t < dims[0]; ++t) mean += v[std::size_t(t * dims[1] + r)] / double(dims[0]);
        want[concat("gate mean stream ", r + 1, " target ", number)] = mean;
        gates[int(r + 1)].push_back(mean);
      }
    }
  }
  const auto mean = [](const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x;
    return sum / double(v.size());
  };
  if (!entropies.empty()) want["depth attention entropy"] = mean(entropies);
  for (const auto& [stream, means] : gates) want[concat("gate mean stream ", stream)] = mean(means);

  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, value] : want) EXPECT_NEAR(got.at(name), value, 1e-12) << name;
  EXPECT_EQ(std::count_if(want.begin(), want.end(),
                          [](const auto& m) { return m.first.starts_with("output norm"); }),
            2 * run.config.model.num_hidden_layers);
  EXPECT_EQ(!gates.empty(), GetParam() == residual::Type::Msar);
}

TEST_P(StepMetrics, LookingChangesNoBit) {
  for (const train::Granularity granularity :
       {train::Granularity::None, train::Granularity::Selective, train::Granularity::Full}) {
    train::RunConfig config = small_run(GetParam());
    config.recompute.granularity = granularity;
    Training plain(config), watched(config);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const train::StepResult a = plain.trainer.step(plain.batch(step));
      train::StepObserver observer(watched.device);
      const train::StepResult b = watched.trainer.gradients(watched.batch(step), &observer);
      train::Metrics metrics;
      append_expert_metrics(metrics, watched.trainer, config);
      observer.append_to(metrics);
      watched.trainer.update(b);
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(a.grad_norm, b.grad_norm);
    }
    for (const auto& [name, found] : plain.trainer.store().by_name())
      EXPECT_EQ(to_host(plain.device, found.master(), "test"),
                to_host(watched.device, watched.trainer.store().by_name().at(name).master(), "test"))
          << name;
  }
}

std::string type_name(const ::testing::TestParamInfo<residual::Type>& info) {
  return std::string(name_of(info.param));
}
INSTANTIATE_TEST_SUITE_P(Residuals, StepMetrics,
                         ::testing::Values(residual::Type::Vanilla, residual::Type::AttnRes,
                                           residual::Type::Msar, residual::Type::Mhc,
                                           residual::Type::AttnResMhc),
                         type_name);

TEST(ExpertMetrics, AreThoseOfTheLoadsThatTheStepCounted) {
  Training run(small_run(residual::Type::Vanilla));
  run.trainer.step(run.batch(1));  // biases leave zero
  const model::ModelConfig& m = run.config.model;
  const auto bias = to_host(
      run.device,
      run.trainer.store().by_name().at("model.layers.2.mlp.gate.e_score_correction_bias").master(), "test");
  run.trainer.gradients(run.batch(2));
  // Loads by hand: layer 1 takes all tokens evenly but for one expert, layer 2 all to two experts.
  std::map<int, nn::Moe*> moes = run.trainer.moes();
  ASSERT_EQ(moes.size(), 3u);  // layers 1, 2 and multi-token prediction's
  ASSERT_EQ(m.n_routed_experts, 5);
  from_host(run.device, moes[1]->load(), std::vector<std::int64_t>{20, 20, 20, 0, 20});
  from_host(run.device, moes[2]->load(), std::vector<std::int64_t>{60, 0, 0, 20, 0});
  from_host(run.device, moes[3]->load(), std::vector<std::int64_t>{16, 16, 16, 16, 16});
  train::Metrics metrics;
  append_expert_metrics(metrics, run.trainer, run.config);
  const std::map<std::string, double> got = by_name(metrics);
  EXPECT_DOUBLE_EQ(got.at("expert load max/mean layer 1"), 20.0 / 16);
  EXPECT_DOUBLE_EQ(got.at("expert load entropy layer 1"), std::log(4.0) / std::log(5.0));
  EXPECT_EQ(got.at("dead experts layer 1"), 1);
  EXPECT_DOUBLE_EQ(got.at("expert load max/mean layer 2"), 60.0 / 16);
  EXPECT_DOUBLE_EQ(got.at("expert load entropy layer 2"),
                   -(0.75 * std::log(0.75) + 0.25 * std::log(0.25)) / std::log(5.0));
  EXPECT_EQ(got.at("dead experts layer 2"), 3);
  EXPECT_DOUBLE_EQ(got.at("expert load max/mean layer 3"), 1);
  EXPECT_NEAR(got.at("expert load entropy layer 3"), 1, 1e-15);
  EXPECT_EQ(got.at("expert load max/mean"), got.at("expert load max/mean layer 2"));
  EXPECT_EQ(got.at("expert load entropy"), got.at("expert load entropy layer 2"));
  EXPECT_EQ(got.at("dead experts"), 4);
  const auto [low, high] = std::minmax_element(bias.begin(), bias.end());
  EXPECT_GT(*high - *low, 0);
  EXPECT_EQ(got.at("router bias range layer 2"), *high - *low);
  EXPECT_EQ(got.count("expert load max/mean layer 0"), 0u) << "a dense layer";
  EXPECT_EQ(got.count("expert rank load max/mean"), 0u) << "all experts are on one rank";
}

// The metrics of a step on data-parallel ranks of which each two share six experts; all ranks have the same.
std::map<std::string, double> metrics_on_ranks(int ranks, std::int64_t rows, double crowding,
                                               std::map<int, std::vector<double>>& loads) {
  train::RunConfig c = small_run(residual::Type::Vanilla);
  c.model.n_routed_experts = 6;
  c.training.micro_batch_size = 1, c.training.global_batch_size = rows;
  c.parallel.expert_model_parallel_size = 2;
  std::vector<std::map<std::string, double>> all(ranks);
  comm::run_threads(ranks, [&](comm::World& world) {
    device::Device device(open_device_options());
    const comm::Mesh mesh(world, {1, ranks, 2});
    train::Trainer trainer(c, device, mesh);
    for (const Buffer& bias : trainer.store().buffers())
      trainer.store().set(bias.name, {crowding, crowding, 0, 0, 0, 0});
    train::StepObserver observer(device);
    trainer.gradients(small_batch(c.model, rows, kLength, 1), &observer);
    train::Metrics metrics;
    append_expert_metrics(metrics, trainer, c);
    all[world.rank()] = by_name(metrics);
    if (world.rank() > 0) return;
    for (const auto& [layer, moe] : trainer.moes()) loads[layer] = to_host(device, moe->load(), "test");
  });
  for (const auto& metrics : all) EXPECT_EQ(metrics, all[0]);
  return all[0];
}

TEST(ExpertMetrics, TellHowUnevenlyRowsComeToRanks) {
  std::map<int, std::vector<double>> loads;
  const auto got = metrics_on_ranks(2, 4, 0, loads);
  double worst = 0;
  for (const auto& [layer, n] : loads) {
    const double first = n[0] + n[1] + n[2], second = n[3] + n[4] + n[5];
    ASSERT_NE(first, second) << "says nothing";
    const double uneven = 2 * std::max(first, second) / (first + second);
    EXPECT_DOUBLE_EQ(got.at(concat("expert rank load max/mean layer ", layer)), uneven);
    worst = std::max(worst, uneven);
  }
  EXPECT_DOUBLE_EQ(got.at("expert rank load max/mean"), worst);
  // Three sequences on two groups: the first rank of the first group gets the rows of two, 2, 0, 1 and 0.
  EXPECT_DOUBLE_EQ(metrics_on_ranks(4, 3, 100, loads).at("expert rank load max/mean"), 2 / 0.75);
}

}  // namespace
}  // namespace strata::test
