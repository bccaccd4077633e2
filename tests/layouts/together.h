// Small models on ranks that are threads, and what the ranks know together.
#pragma once
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <memory>
#include <mutex>

#include "support/small_model.h"
#include "support/test_device.h"
#include "train/layout.h"
#include "train/trainer.h"

namespace strata::test {

using pipeline::ScheduleKind;
using train::RunConfig;
using train::StepResult;
constexpr std::int64_t kLength = 7;

struct Layout {
  int pipeline = 1, per_rank = 1, expert = 1, data = 1;
  std::optional<ScheduleKind> schedule = {};
  int ranks() const { return pipeline * data; }
  std::string text() const {
    return concat("pp ", pipeline, " v ", per_rank, " ep ", expert, " dp ", data,
                  schedule ? concat(" ", name_of(*schedule)) : "");
  }
};

// Four layers, all but the first with experts, and multi-token prediction's.
inline RunConfig small_run() {
  RunConfig c;
  residual::Config r;
  r.type = residual::Type::Msar, r.num_blocks = 2, r.streams = 2;
  c.model = small_config(r);
  c.model.n_routed_experts = 8, c.model.num_nextn_predict_layers = 1;
  c.model.seq_aux_loss_coef = 0.5, c.model.router_z_loss_coef = 0.05;
  c.router.bias_update_speed = 0.01;
  c.training.seq_length = kLength, c.training.micro_batch_size = 1, c.training.train_iters = 20;
  c.precision.compute = train::Compute::Float64;
  return c;
}

inline RunConfig on(RunConfig c, const Layout& at) {
  c.parallel.pipeline_model_parallel_size = at.pipeline;
  c.parallel.virtual_pipeline_model_parallel_size = at.per_rank;
  c.parallel.expert_model_parallel_size = at.expert;
  c.parallel.pipeline_schedule = at.schedule;
  return c;
}

struct Rank {
  Rank(comm::World& world, const RunConfig& c)
      : config(c),
        mesh(world, train::mesh_shape(config, world.size())),
        device(open_device_options()),
        trainer(config, device, mesh) {
    omp_set_num_threads(1);
  }
  std::vector<double> host(const Tensor& t) { return to_host(device, t, "test"); }
  // A batch's gradients, summed over all ranks that have them.
  StepResult gradients(const HostBatch& batch) {
    const StepResult r = trainer.gradients(batch);
    trainer.gather_gradients();
    return r;
  }
  Values grads() {
    Values all;
    for (const auto& [name, found] : trainer.store().by_name())
      if (found.parameter) all[name] = host(found.grad());
    return all;
  }
  Values weights() {  // and router biases
    Values all;
    for (const auto& [name, found] : trainer.store().by_name()) all[name] = host(found.master());
    return all;
  }
  Values loads() {
    Values all;
    for (const auto& [layer, moe] : trainer.moes()) all[concat("layer ", layer)] = host(moe->load());
    return all;
  }

  RunConfig config;
  comm::Mesh mesh;
  device::Device device;
  train::Trainer trainer;
};

inline void on_ranks(const RunConfig& config, const Layout& at, const std::function<void(Rank&)>& main) {
  SCOPED_TRACE(at.text());
  comm::run_threads(at.ranks(), [&](comm::World& world) {
    Rank rank(world, on(config, at));
    main(rank);
  });
}

// What the ranks know together. Several that know the same must have the same bits.
class Together {
 public:
  explicit Together(int ranks) : results(std::size_t(ranks)) {}
  void add(Values& all, const Values& mine) {
    const std::lock_guard lock(*mutex_);
    for (const auto& [name, v] : mine) {
      const auto& [there, is_new] = all.emplace(name, v);
      EXPECT_TRUE(is_new || there->second == v) << name << " differs between ranks";
    }
  }

  std::vector<StepResult> results;  // of each rank
  Values grads, loads, weights;

 private:
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

using Prepare = std::function<void(ParameterStore&)>;

inline Together gradients(const RunConfig& config, const Layout& at, const HostBatch& batch,
                          const Prepare& prepare = {}) {
  Together all(at.ranks());
  on_ranks(config, at, [&](Rank& rank) {
    move_weights(rank.trainer.store(), {});
    if (prepare) prepare(rank.trainer.store());
    all.results[std::size_t(rank.mesh.world().rank())] = rank.gradients(batch);
    all.add(all.grads, rank.grads());
    all.add(all.loads, rank.loads());
  });
  return all;
}

inline RunConfig with_rows(RunConfig config, std::int64_t rows) {
  config.training.micro_batch_size = rows;
  return config;
}

// One rank, one micro-batch.
inline Together at_once(const RunConfig& config, const HostBatch& batch, const Prepare& prepare = {}) {
  return gradients(with_rows(config, batch.rows), {}, batch, prepare);
}

inline void expect_same_step(const StepResult& got, const StepResult& want) {
  EXPECT_NEAR(got.lm_loss, want.lm_loss, 1e-12);
  EXPECT_NEAR(got.mtp_loss, want.mtp_loss, 1e-12);
  EXPECT_NEAR(got.aux_loss, want.aux_loss, 1e-12);
  EXPECT_NEAR(got.grad_norm, want.grad_norm, 1e-11 * want.grad_norm);
}

inline void expect_equal(const Together& got, const Together& want, const std::string& what) {
  SCOPED_TRACE(what);
  for (const StepResult& r : got.results) expect_same_step(r, want.results.at(0));
  ASSERT_EQ(got.grads.size(), want.grads.size());
  EXPECT_LE(worst_difference(got.grads, want.grads), 1e-11);
  EXPECT_EQ(got.loads, want.loads);
}

// The first `counted[row]` labels of each row.
inline HostBatch masked_batch(const RunConfig& config, const std::vector<int>& counted) {
  HostBatch b = small_batch(config.model, std::int64_t(counted.size()), kLength, 1, false);
  for (std::size_t i = 0; i < b.labels.size(); ++i)
    b.labels[i] = std::int64_t(i) % kLength < counted[i / kLength] ? b.input_ids[i] : kIgnoreLabel;
  return b;
}
inline HostBatch full_batch(const RunConfig& config, std::int64_t rows) {
  return masked_batch(config, std::vector<int>(std::size_t(rows), int(kLength)));
}

inline double norm(const Values& grads, const std::string& part) {
  double sum = 0;
  for (const auto& [name, g] : grads)
    if (name.find(part) != std::string::npos)
      for (const double x : g) sum += x * x;
  return std::sqrt(sum);
}

}  // namespace strata::test
