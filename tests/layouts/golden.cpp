// The reference cases on meshes of ranks: five training steps give the numbers of an independent float64
// implementation whatever the schedule and the layout. A tenth of the combinations, another one for each
// case; STRATA_TEST_ALL_LAYOUTS=1 runs all, and STRATA_TEST_DATA/golden, if set, has the whole reference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/json_config.h"
#include "support/test_device.h"
#include "train/batch_file.h"
#include "train/layout.h"
#include "train/trace.h"
#include "train/weights.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using pipeline::ScheduleKind;

struct Layout {
  int pipeline, per_rank, expert, data;
};
constexpr Layout kLayouts[] = {{2, 1, 1, 1}, {3, 1, 1, 1}, {4, 1, 1, 1}, {8, 1, 1, 1}, {2, 2, 1, 1},
                               {4, 2, 1, 1}, {1, 1, 1, 2}, {1, 1, 2, 2}, {1, 1, 4, 4}, {1, 1, 8, 8},
                               {2, 1, 2, 2}, {2, 2, 2, 4}, {4, 1, 2, 2}};

std::string folder(const std::string& name) {
  const char* whole = std::getenv("STRATA_TEST_DATA");
  return (fs::path(whole ? whole : STRATA_TEST_FIXTURES) / "golden" / name).string();
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(STRATA_TEST_FIXTURES) / "golden"))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

struct Combination {
  Layout layout;
  ScheduleKind schedule;
  int micro_batch;
  std::string text() const {
    return concat("pp ", layout.pipeline, " v ", layout.per_rank, " ep ", layout.expert, " dp ", layout.data,
                  " ", name_of(schedule), ", micro-batch ", micro_batch);
  }
};

// All that the model can be cut into.
std::vector<Combination> combinations(const model::ModelConfig& model) {
  std::vector<Combination> all;
  for (const Layout& l : kLayouts) {
    if (l.pipeline * l.per_rank > model.num_hidden_layers) continue;
    if (l.expert > 1 && model.n_routed_experts % l.expert != 0) continue;
    std::vector<ScheduleKind> kinds{ScheduleKind::GPipe};
    if (l.per_rank > 1) kinds.push_back(ScheduleKind::Interleaved);
    if (l.per_rank == 1 && l.pipeline > 1)
      kinds.insert(kinds.end(), {ScheduleKind::OneForwardOneBackward, ScheduleKind::ZeroBubble});
    for (const ScheduleKind kind : kinds)
      for (const int rows : {1, 2}) all.push_back({l, kind, rows});
  }
  return all;
}

train::RunConfig load(const std::string& dir) {
  train::RunConfig config;
  load_config(config, dir + "/config.json",
              {"precision.compute=float64", "optimizer.lr=3e-3", "optimizer.eps=1e-6", "optimizer.beta1=0.9",
               "optimizer.beta2=0.95", "optimizer.clip_grad=1", "optimizer.weight_decay=0.1"});
  return config;
}

class GoldenLayouts : public ::testing::TestWithParam<std::size_t> {
 protected:
  const std::string name = cases().at(GetParam());
  const std::string dir = folder(name);
  const HostBatch batch = train::load_batch(dir + "/batch.safetensors");
  const checkpoint::SafetensorsFile weights{dir + "/model.safetensors"},
      expected{dir + "/expected.safetensors"};

  void compare(train::RunConfig config, const Combination& c) const {
    config.parallel.pipeline_model_parallel_size = c.layout.pipeline;
    config.parallel.virtual_pipeline_model_parallel_size = c.layout.per_rank;
    config.parallel.expert_model_parallel_size = c.layout.expert;
    config.parallel.pipeline_schedule = c.schedule;
    config.training.micro_batch_size = c.micro_batch;
    std::vector<train::Difference> all;
    comm::run_threads(c.layout.pipeline * c.layout.data, [&](comm::World& world) {
      const comm::Mesh mesh(world, train::mesh_shape(config, world.size()));
      device::Device device(open_device_options());
      train::Trainer trainer(config, device, mesh);
      train::load_weights(trainer.store(), checkpoint::named_weights(weights), config.model);
      const train::TraceTensors ours = train::trace(trainer, config, batch, 5);
      if (world.rank() == 0)
        all = train::compare(ours, expected, train::reference_tolerance(DType::Float64), true);
    });
    EXPECT_GT(all.size(), 100u) << c.text();
    for (std::size_t i = 0; i < all.size() && i < 3; ++i)
      EXPECT_TRUE(all[i].within()) << c.text() << ": " << all[i].name << " " << all[i].missing << " "
                                   << all[i].value << " > " << all[i].tolerance;
  }
};

TEST_P(GoldenLayouts, EqualTheReference) {
  constexpr std::size_t kStride = 10;
  const std::size_t stride = std::getenv("STRATA_TEST_ALL_LAYOUTS") ? 1 : kStride;
  const train::RunConfig config = load(dir);
  const std::vector<Combination> all = combinations(config.model);
  ASSERT_GT(all.size(), kStride);
  for (std::size_t i = GetParam() % stride; i < all.size(); i += stride) compare(config, all[i]);
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenLayouts, ::testing::Range(std::size_t(0), cases().size()),
                         [](const auto& info) { return cases().at(info.param); });

}  // namespace
}  // namespace strata::test
