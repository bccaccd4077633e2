// A model cut into stages on several ranks computes what the whole model does.
#include <gtest/gtest.h>

#include "pipeline/executor.h"
#include "pipeline/schedule.h"
#include "support/small_model.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using pipeline::ScheduleKind;

struct Layout {
  ScheduleKind kind = ScheduleKind::OneForwardOneBackward;
  int ranks = 2, stages_per_rank = 1;
  std::optional<std::vector<std::int64_t>> layers = {};
};

std::vector<HostBatch> rows_of(const HostBatch& batch) {
  std::vector<HostBatch> rows;
  for (std::int64_t r = 0; r < batch.rows; ++r) rows.push_back(batch.slice(r, r + 1));
  return rows;
}

device::DeviceOptions communicating_device() {
  device::DeviceOptions options = device_options();
  options.guard = false;  // messages reach memory at any time
  return options;
}

// What ranks gave together; a parameter on several ranks has the sum.
struct Together {
  ModelResult result;
  std::int64_t bytes = 0;
  std::map<int, std::vector<double>> loads;

  void add(const ModelResult& r) {
    result.lm_loss += r.lm_loss;
    result.aux_loss += r.aux_loss;
    result.mtp_loss += r.mtp_loss;
    for (const auto& [name, g] : r.grads) {
      auto& sum = result.grads[name];
      sum.resize(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
    }
  }
};

class Rank {
 public:
  Rank(comm::World& world, const model::ModelConfig& config, const Layout& layout, const ModelRun& run)
      : config_(config), layout_(layout), run_(run), device_(communicating_device()) {
    std::vector<int> all(layout.ranks);
    for (int i = 0; i < layout.ranks; ++i) all[i] = i;
    pipeline_ = world.group("pipeline", all);
    const int count = layout.ranks * layout.stages_per_rank;
    ranges_ = pipeline::cut_layers(config, count, layout.layers);
    std::vector<model::Stage*> stages;
    for (int s = world.rank(); s < count; s += layout.ranks)
      stages.push_back(&stages_.emplace_back(config, ranges_[s], store_));
    store_.allocate(device_, run.compute);
    for (model::Stage& s : stages_) s.allocate(device_);
    move_weights(store_, run);
    executor_ =
        std::make_unique<pipeline::Executor>(device_, *pipeline_, config, run.compute, ranges_, stages);
  }

  void train(const HostBatch& batch, Together& together, std::mutex& mutex) {
    const std::vector<HostBatch> rows = rows_of(batch);
    ModelResult r;
    std::map<int, Values> complete;  // gradients of a layer when they were said to be
    const auto scalar = [&](const Var& v) {
      return v.value.defined() ? to_host(device_, v.value, "test").at(0) : 0;
    };
    store_.zero_grads();
    executor_->run(
        make_schedule(layout_.kind, layout_.ranks, layout_.stages_per_rank, int(rows.size())),
        {.micro_batches = rows,
         .counts = model::count(batch),
         .tape = run_.tape,
         .stage = {.recompute_layers = run_.recompute_layers},
         .on_losses =
             [&](const model::Losses& l) {
               r.lm_loss += scalar(l.lm);
               r.mtp_loss += scalar(l.mtp);
               for (const Var& aux : l.aux) r.aux_loss += scalar(aux);
             },
         .on_gradients =
             [&](int layer) { EXPECT_TRUE(complete.emplace(layer, gradients_of(layer)).second); }});
    for (const auto& [name, found] : store_.by_name())
      if (found.parameter) r.grads[name] = to_host(device_, found.grad(), "test");
    for (const auto& [layer, grads] : complete)
      for (const auto& [name, g] : grads)
        EXPECT_TRUE(g == r.grads.at(name)) << name << " changed after layer " << layer << " was complete";
    expect_all_complete(complete);
    const std::lock_guard lock(mutex);
    together.add(r);
    together.bytes += pipeline_->traffic().bytes;
    for (const model::Stage& s : stages_) {
      int layer = s.range().first * 100;
      for (nn::Moe* moe : s.moes()) together.loads[layer++] = to_host(device_, moe->load(), "test");
    }
  }

  double evaluate(const HostBatch& batch) {
    const std::vector<HostBatch> rows = rows_of(batch);
    double lm = 0;
    executor_->evaluate({.micro_batches = rows,
                         .counts = model::count(batch),
                         .tape = {.recording = false, .recompute = {}, .observer = nullptr, .replay = true},
                         .stage = {},
                         .on_losses = [&](const model::Losses& l) {
                           if (l.lm.value.defined()) lm += to_host(device_, l.lm.value, "test").at(0);
                         }});
    return lm;
  }
  std::int64_t peak_activations() { return device_.memory().use(device::Purpose::Activations).peak; }

 private:
  Values gradients_of(int layer) {
    Values grads;
    for (const auto& [name, found] : store_.by_name())
      if (found.parameter && found.parameter->layer == layer)
        grads[name] = to_host(device_, found.grad(), "test");
    return grads;
  }
  void expect_all_complete(const std::map<int, Values>& complete) {
    for (const Parameter& p : store_.parameters())
      if (p.layer >= 0) {
        EXPECT_TRUE(complete.count(p.layer)) << "layer " << p.layer;
      }
  }

  const model::ModelConfig& config_;
  const Layout& layout_;
  const ModelRun& run_;
  device::Device device_;
  std::unique_ptr<comm::Communicator> pipeline_;
  ParameterStore store_;
  std::vector<model::StageRange> ranges_;
  std::deque<model::Stage> stages_;
  std::unique_ptr<pipeline::Executor> executor_;
};

Together train(const model::ModelConfig& config, const HostBatch& batch, const Layout& layout,
               const ModelRun& run = {}) {
  Together together;
  std::mutex mutex;
  comm::run_threads(layout.ranks, [&](comm::World& world) {
    Rank(world, config, layout, run).train(batch, together, mutex);
  });
  for (const auto& [layer, load] : together.loads) together.result.loads.push_back(load);
  return together;
}

class Pipeline : public ::testing::TestWithParam<Variant> {
 protected:
  model::ModelConfig config = small_config(GetParam().config);
};

std::vector<Layout> layouts() {
  return {{ScheduleKind::GPipe, 2},
          {ScheduleKind::OneForwardOneBackward, 3},
          {ScheduleKind::ZeroBubble, 4},
          {ScheduleKind::Interleaved, 2, 2},
          {ScheduleKind::GPipe, 2, 2},
          {ScheduleKind::OneForwardOneBackward, 4, 1, {{0, 1, 3, 0}}},
          {ScheduleKind::OneForwardOneBackward, 2, 1, {{3, 1}}}};
}

void expect_equal(const ModelResult& got, const ModelResult& want, const std::string& what) {
  EXPECT_NEAR(got.lm_loss, want.lm_loss, 1e-13 * std::abs(want.lm_loss)) << what;
  EXPECT_NEAR(got.aux_loss, want.aux_loss, 1e-13 * std::abs(want.aux_loss)) << what;
  EXPECT_NEAR(got.mtp_loss, want.mtp_loss, 1e-13 * std::abs(want.mtp_loss)) << what;
  EXPECT_EQ(got.grads.size(), want.grads.size()) << what;
  EXPECT_LE(worst_difference(got.grads, want.grads), 1e-12) << what;
  EXPECT_TRUE(got.loads == want.loads) << what << ": expert loads";
}

TEST_P(Pipeline, EqualsOneRank) {
  for (const std::int64_t rows : {1, 5}) {
    const HostBatch batch = small_batch(config, rows, 13);
    const ModelResult whole = run_model(config, batch);
    for (const Layout& l : layouts())
      expect_equal(train(config, batch, l).result, whole,
                   concat(name_of(l.kind), " on ", l.ranks, " ranks, ", rows, " micro-batches"));
  }
}

TEST_P(Pipeline, TiedHeadAndNextTokenEqualOneRank) {
  config.tie_word_embeddings = true;
  config.num_nextn_predict_layers = 1;
  const HostBatch batch = small_batch(config, 3, 13);
  const ModelResult whole = run_model(config, batch);
  for (const Layout& l : layouts())
    expect_equal(train(config, batch, l).result, whole, concat(name_of(l.kind), " on ", l.ranks, " ranks"));
}

TEST_P(Pipeline, RecomputeEqualsNone) {
  const HostBatch batch = small_batch(config, 3, 13);
  for (const Layout& l : {Layout{ScheduleKind::ZeroBubble, 2}, Layout{ScheduleKind::Interleaved, 2, 2}}) {
    ModelRun run;
    const ModelResult plain = train(config, batch, l, run).result;
    run.recompute_layers = true;
    EXPECT_TRUE(train(config, batch, l, run).result.grads == plain.grads) << "full";
    run.recompute_layers = false;
    run.tape.recompute = {true, true, true, true};
    EXPECT_TRUE(train(config, batch, l, run).result.grads == plain.grads) << "selective";
  }
}

TEST_P(Pipeline, EvaluatesWhatOneRankDoes) {
  const HostBatch batch = small_batch(config, 3, 13);
  const double want = run_model(config, batch).lm_loss;
  for (const Layout& l : layouts()) {
    const ModelRun run;
    double got = 0;
    comm::run_threads(l.ranks, [&](comm::World& world) {
      const double mine = Rank(world, config, l, run).evaluate(batch);
      if (world.rank() + 1 == l.ranks) got = mine;
    });
    EXPECT_NEAR(got, want, 1e-13 * want);
  }
}

INSTANTIATE_TEST_SUITE_P(AllResiduals, Pipeline, ::testing::ValuesIn(residual_variants()),
                         [](const auto& info) { return info.param.name; });

// What a rank keeps depends on the ranks and stages alone: what was sent is let go once it has arrived.
TEST(PipelineMemory, DoesNotGrowWithTheMicroBatches) {
  residual::Config residual;
  residual.type = residual::Type::Msar, residual.num_blocks = 4;
  const model::ModelConfig config = small_config(residual);
  const auto peaks = [&](const Layout& layout, bool evaluates, std::int64_t rows) {
    const HostBatch batch = small_batch(config, rows, 13);
    const ModelRun run;
    std::vector<std::int64_t> peak(layout.ranks);
    Together together;
    std::mutex mutex;
    comm::run_threads(layout.ranks, [&](comm::World& world) {
      Rank rank(world, config, layout, run);
      if (evaluates)
        rank.evaluate(batch);
      else
        rank.train(batch, together, mutex);
      peak[world.rank()] = rank.peak_activations();
    });
    return peak;
  };
  for (const Layout& layout :
       {Layout{ScheduleKind::OneForwardOneBackward, 3}, Layout{ScheduleKind::Interleaved, 2, 2}})
    for (const bool evaluates : {false, true})
      EXPECT_EQ(peaks(layout, evaluates, 6), peaks(layout, evaluates, 24))
          << name_of(layout.kind) << (evaluates ? ", evaluation" : ", training");
}

TEST(PipelineCut, RefusesLayoutsThatDoNotFit) {
  const model::ModelConfig config = small_config({});  // four layers
  const auto refusal = [&](int stages, std::optional<std::vector<std::int64_t>> layout) -> std::string {
    try {
      pipeline::cut_layers(config, stages, layout);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(4, {}), "");
  EXPECT_EQ(refusal(4, {{0, 2, 2, 0}}), "");
  EXPECT_EQ(refusal(5, {}),
            "model.num_hidden_layers 4 cannot fill 5 stages; fewer do, or "
            "parallel.pipeline_model_parallel_layout with "
            "no layer beside the embedding or the head");
  const std::string key = "parallel.pipeline_model_parallel_layout";
  EXPECT_EQ(refusal(3, {{2, 2}}), key + " names 2 stages, there are 3");
  EXPECT_EQ(refusal(3, {{2, 0, 2}}),
            key + "[1] is 0, allowed is at least 1, and 0 for the first stage and the last");
  EXPECT_EQ(refusal(2, {{5, -1}}),
            key + "[1] is -1, allowed is at least 1, and 0 for the first stage and the last");
  EXPECT_EQ(refusal(2, {{2, 1}}), key + " has 3 layers in all, model.num_hidden_layers is 4");
}

// Bytes of the cuts, counted while they cross, in units of d and token: with k new blocks in each of the C =
// PV chunks, (P-1) + P(P-1)/2 k + (V-1) P (P-1) k forward, the same back.
TEST(PipelineBytes, OfBlockSummariesAreTheFormula) {
  for (const residual::Type type : {residual::Type::AttnRes, residual::Type::Msar})
    for (const auto& [P, V] : {std::pair{2, 1}, {4, 1}, {2, 2}, {4, 2}, {2, 4}}) {
      residual::Config residual;
      residual.type = type;
      residual.num_blocks = 8;
      model::ModelConfig config = small_config(residual);
      config.num_hidden_layers = 8;
      const HostBatch batch = small_batch(config, 3, 6);
      const Layout layout{V > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneForwardOneBackward, P, V};
      const std::int64_t k = 8 / (P * V);
      const std::int64_t units = (P - 1) + P * (P - 1) / 2 * k + (V - 1) * P * (P - 1) * k;
      const std::int64_t unit = batch.rows * batch.length * config.hidden_size * 8;
      EXPECT_EQ(train(config, batch, layout).bytes, 2 * units * unit)
          << P << " ranks, " << V << " chunks each";
    }
}

// One item crosses each cut, whatever came before.
TEST(PipelineBytes, OfStreamsAndHiddenStatesAreOneItemACut) {
  for (const auto& [type, items] : {std::pair{residual::Type::Vanilla, 1}, {residual::Type::Mhc, 4}}) {
    residual::Config residual;
    residual.type = type;
    const model::ModelConfig config = small_config(residual);
    const HostBatch batch = small_batch(config, 3, 6);
    const std::int64_t unit = batch.rows * batch.length * config.hidden_size * 8;
    EXPECT_EQ(train(config, batch, {ScheduleKind::Interleaved, 2, 2}).bytes, 2 * 3 * items * unit);
  }
}

}  // namespace
}  // namespace strata::test
