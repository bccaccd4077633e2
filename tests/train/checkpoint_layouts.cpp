// A run that moves from layout to layout through its checkpoints: weights and moments keep their bits, the
// numbers are those of one rank that never stopped, and a save is everybody's or nobody's.
#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "checkpoint/async_saver.h"
#include "checkpoint/named_weights.h"
#include "checkpoint/open_on_all.h"
#include "checkpoint/weight_set.h"
#include "support/small_model.h"
#include "support/temp_folder.h"
#include "support/test_device.h"
#include "train/checkpointing.h"
#include "train/layout.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using checkpoint::SafetensorsFile;

struct Layout {
  int pipeline = 1, stages = 1, expert = 1, data = 1;  // stages: on each pipeline rank
  bool distributed = true;
  int ranks() const { return pipeline * data; }
  std::string text() const {
    return concat("pp ", pipeline, " v ", stages, " ep ", expert, " dp ", data, " distributed ", distributed);
  }
};

// MSAR, experts, multi-token prediction, a head tied to the embedding.
train::RunConfig config_of(const Layout& at, train::Compute compute, std::int64_t experts) {
  train::RunConfig c;
  residual::Config r;
  r.type = residual::Type::Msar, r.num_blocks = 2, r.streams = 2;
  c.model = small_config(r);
  c.model.n_routed_experts = experts, c.model.num_nextn_predict_layers = 1;
  c.model.tie_word_embeddings = true;
  c.router.bias_update_speed = 0.01;
  c.training.seq_length = 9, c.training.global_batch_size = 8, c.training.train_iters = 20;
  c.optimizer = {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.3, .clip_grad = 0.5};
  c.optimizer.use_distributed_optimizer = at.distributed;
  c.precision.compute = compute;
  c.parallel.pipeline_model_parallel_size = at.pipeline;
  c.parallel.virtual_pipeline_model_parallel_size = at.stages;
  c.parallel.expert_model_parallel_size = at.expert;
  return c;
}

// One rank of a run.
struct Rank {
  Rank(comm::World& world, const train::RunConfig& c)
      : config(c),
        mesh(world, train::mesh_shape(config, world.size())),
        device(open_device_options()),
        trainer(config, device, mesh) {
    omp_set_num_threads(1);
    move_weights(trainer.store(), {});
  }
  std::vector<double> host(const Tensor& t) { return to_host(device, t, "test"); }
  train::StepResult step() {
    return trainer.step(small_batch(config.model, 8, 9, std::uint64_t(trainer.steps() + 1)));
  }
  checkpoint::Snapshot capture() {
    const train::Progress progress{
        .step = trainer.steps(), .updates = trainer.optimizer().steps(), .data = "none", .losses = {1.0 / 3}};
    checkpoint::Snapshot snapshot = train::capture(trainer, progress, "{\"is\": \"config\"}", "{}");
    std::int64_t bytes = 0;
    for (const auto& [name, tensors] : snapshot.files)
      for (const checkpoint::HostTensor& t : tensors) bytes += std::int64_t(t.bytes.size());
    EXPECT_EQ(bytes, train::captured_bytes(trainer));
    return snapshot;
  }

  train::RunConfig config;
  comm::Mesh mesh;
  device::Device device;
  train::Trainer trainer;
};

void on_layout(const Layout& at, train::Compute compute, std::int64_t experts,
               const std::function<void(Rank&)>& main) {
  comm::run_threads(at.ranks(), [&](comm::World& world) {
    Rank rank(world, config_of(at, compute, experts));
    main(rank);
  });
}

void save(Rank& rank, const std::string& root) {
  checkpoint::CheckpointStore store(root, {});
  checkpoint::AsyncSaver saver(store, true, &rank.mesh.all());
  saver.save(rank.capture());
  saver.finish();
  EXPECT_EQ(saver.durable_step(), rank.trainer.steps());
}

std::vector<SafetensorsFile> moment_files(const checkpoint::Opened& opened) {
  std::vector<SafetensorsFile> files;
  for (const auto& [name, file] : opened.manifest().files)
    if (name.starts_with("optimizer")) files.push_back(opened.file(name));
  return files;
}

// Everything by name, put together from all files.
Values read(const checkpoint::Opened& opened) {
  Values all;
  for (const auto& [name, w] : checkpoint::named_weights(checkpoint::WeightSet(opened.weights_path())).all)
    all[name] = w.read();
  const checkpoint::CutTensors moments(opened.folder(), moment_files(opened));
  for (const auto& [name, whole] : moments.all()) {
    std::int64_t numel = 1;
    for (const std::int64_t e : whole.shape) numel *= e;
    all[name] = moments.floats(name, 0, numel);
  }
  return all;
}

// What a rank has, against the whole.
void expect_part_of(Rank& rank, const Values& whole, const std::string& where) {
  rank.trainer.optimizer().visit_masters([&](const std::string& name, const Tensor& master) {
    EXPECT_EQ(rank.host(master), whole.at(name)) << name << " at " << where;
  });
  for (const Buffer& b : rank.trainer.store().buffers())
    EXPECT_EQ(rank.host(b.value), whole.at(b.name)) << b.name << " at " << where;
  for (const optim::StatePiece& p : rank.trainer.optimizer().pieces()) {
    const auto from = whole.at(p.name).begin() + p.offset;
    EXPECT_EQ(rank.host(p.values), std::vector<double>(from, from + p.count)) << p.name << " at " << where;
  }
}

constexpr std::int64_t kStepsEach = 2;

struct Journey {
  std::vector<Layout> layouts;
  train::Compute compute = train::Compute::Float64;
  std::int64_t experts = 8;

  // A few steps on each; losses and norms of all, and the last checkpoint.
  void travel() {
    for (const Layout& at : layouts) {
      SCOPED_TRACE(at.text());
      const std::string before = last, where = at.text();
      const std::int64_t step = std::int64_t(numbers.size());
      const Values state = before.empty() ? Values() : read(checkpoint::open_checkpoint(before));
      on_layout(at, compute, experts, [&](Rank& rank) {
        if (!before.empty()) {
          EXPECT_EQ(train::restore(rank.trainer, checkpoint::open_checkpoint(before)).step, step);
          expect_part_of(rank, state, where);
          save(rank, folder / "again-" + std::to_string(step));
        }
        for (int i = 0; i < kStepsEach; ++i) {
          const train::StepResult r = rank.step();
          if (rank.mesh.all().rank() == 0) numbers.push_back({r.loss, r.grad_norm});
        }
        save(rank, folder.path());
        if (compute != train::Compute::BFloat16) return;
        const std::string now = folder / checkpoint::step_name(rank.trainer.steps());
        expect_part_of(rank, read(checkpoint::open_checkpoint(now)), where);
      });
      const auto opened = [&](const std::string& root, std::int64_t at_step) {
        return checkpoint::open_checkpoint(root + "/" + checkpoint::step_name(at_step));
      };
      EXPECT_TRUE(before.empty() || read(opened(folder / "again-" + std::to_string(step), step)) == state);
      last = opened(folder.path(), step + kStepsEach).folder();
    }
  }

  TempFolder folder = {};
  std::string last = {};
  std::vector<std::pair<double, double>> numbers = {};
};

void expect_uninterrupted(const Journey& journey) {
  Values weights;
  std::vector<std::pair<double, double>> numbers;
  on_layout({}, journey.compute, journey.experts, [&](Rank& rank) {
    for (std::size_t i = 0; i < journey.numbers.size(); ++i) {
      const train::StepResult r = rank.step();
      numbers.push_back({r.loss, r.grad_norm});
    }
    for (const auto& [name, found] : rank.trainer.store().by_name())
      weights[name] = rank.host(found.master());
    for (const optim::StatePiece& p : rank.trainer.optimizer().pieces())
      weights[p.name] = rank.host(p.values);
  });
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR(journey.numbers[i].first, numbers[i].first, 1e-9) << "loss of step " << i + 1;
    EXPECT_NEAR(journey.numbers[i].second, numbers[i].second, 1e-9) << "norm of step " << i + 1;
  }
  const Values end = read(checkpoint::open_checkpoint(journey.last));
  ASSERT_EQ(end.size(), weights.size());
  EXPECT_LE(worst_difference(end, weights), 1e-9);
}

TEST(CheckpointLayouts, ARunMovesThroughAllOfThem) {
  for (const bool distributed : {true, false}) {
    Journey journey{
        .layouts = {{},
                    {.pipeline = 2, .expert = 2, .data = 4, .distributed = distributed},
                    {.data = 8, .distributed = distributed},
                    {.pipeline = 4},
                    {.expert = 4, .data = 4, .distributed = distributed},
                    {.pipeline = 2, .stages = 2, .expert = 2, .data = 2, .distributed = !distributed},
                    {}}};
    journey.travel();
    expect_uninterrupted(journey);
  }
}

TEST(CheckpointLayouts, SixExpertsFromTwoRanksToThree) {
  Journey journey{.layouts = {{.expert = 2, .data = 2}, {.expert = 3, .data = 3}, {.expert = 2, .data = 4}},
                  .experts = 6};
  journey.travel();
  expect_uninterrupted(journey);
}

TEST(CheckpointLayouts, MastersAreKeptInBFloat16) {
  Journey journey{.layouts = {{.pipeline = 2, .expert = 2, .data = 4},
                              {.data = 8},
                              {.pipeline = 4, .data = 2, .distributed = false},
                              {}},
                  .compute = train::Compute::BFloat16};
  journey.travel();
  const checkpoint::WeightSet weights(journey.last);
  EXPECT_EQ(weights.at("model.embed_tokens.weight").dtype, "F32");
}

std::int64_t tensor_bytes(const SafetensorsFile& file) {
  std::int64_t bytes = 0;
  for (const auto& [name, t] : file.tensors()) bytes += t.end - t.begin;
  return bytes;
}

TEST(CheckpointLayouts, EveryValueIsWrittenOnceByRanksInEqualParts) {
  std::int64_t whole_moments = 0, whole_weights = 0;
  for (const Layout& at : {Layout{}, Layout{.data = 4}, Layout{.data = 4, .distributed = false}}) {
    SCOPED_TRACE(at.text());
    const TempFolder folder;
    on_layout(at, train::Compute::Float64, 8, [&](Rank& rank) { save(rank, folder.path()); });
    const checkpoint::Opened opened = checkpoint::open_checkpoint(folder / "step_00000000");
    EXPECT_TRUE(checkpoint::verify(opened.folder()).remarks.empty()) << "a hidden file stays";
    std::int64_t moments = 0, weights = 0;
    for (const std::string& name : names_in(opened.folder())) {
      if (!name.ends_with(".safetensors")) continue;
      const SafetensorsFile file = opened.file(name);
      std::uint64_t header = 0;
      std::memcpy(&header, read_file(file.path()).data(), sizeof header);
      EXPECT_EQ(file.bytes(), 8 + std::int64_t(header) + tensor_bytes(file)) << name;
      (name.starts_with("model") ? weights : moments) += tensor_bytes(file);
    }
    if (at.ranks() == 1) {
      whole_moments = moments, whole_weights = weights;
      EXPECT_EQ(names_in(opened.folder()),
                (std::vector<std::string>{"config.json", "manifest.json", "model.safetensors",
                                          "optimizer.safetensors", "origins.json", "state.json"}));
      continue;
    }
    EXPECT_EQ(moments, whole_moments);
    EXPECT_EQ(weights, whole_weights);
    for (const SafetensorsFile& file : moment_files(opened))
      EXPECT_NEAR(double(tensor_bytes(file)), double(whole_moments) / 4, 0.05 * double(whole_moments));
    EXPECT_TRUE(opened.has("model-00004-of-00004.safetensors"));
    EXPECT_NE(opened.text(checkpoint::kIndexName).find(concat("\"total_size\": ", weights)),
              std::string::npos);
  }
}

// The sentences with which a save fails on each rank, and that the run goes on.
std::set<std::string> failures(const TempFolder& folder, int failing, const checkpoint::SaveFaults& faults,
                               bool in_background) {
  std::vector<std::string> said(4);
  on_layout({.pipeline = 2, .expert = 2, .data = 2}, train::Compute::Float64, 8, [&](Rank& rank) {
    const int me = rank.mesh.all().rank();
    checkpoint::CheckpointStore store(folder / "checkpoints", {});
    checkpoint::AsyncSaver saver(store, in_background, &rank.mesh.all());
    rank.step();
    saver.save(rank.capture());
    rank.step();
    saver.finish();
    EXPECT_EQ(saver.durable_step(), 1);
    if (me == failing) store.set_faults(faults);
    try {
      saver.save(rank.capture());
      rank.step();
      saver.finish();
    } catch (const Error& e) {
      said[me] = e.what();
    }
    EXPECT_EQ(saver.durable_step(), 1);
    rank.mesh.all().barrier();
    EXPECT_TRUE(me > 0 || names_in(store.root()) == std::vector<std::string>{"step_00000001"});
    rank.mesh.all().barrier();
    store.set_faults({});
    saver.save(rank.capture());
    saver.finish();
    EXPECT_EQ(saver.durable_step(), rank.trainer.steps());
  });
  checkpoint::CheckpointStore store(folder / "checkpoints", {});
  EXPECT_EQ(store.list().size(), 2u);
  EXPECT_GE(store.newest_sound([](const std::string& fault) { ADD_FAILURE() << fault; })->step(), 2);
  return {said.begin(), said.end()};
}

TEST(CheckpointLayouts, AFailureOfOneRankIsEverybodys) {
  for (const bool in_background : {true, false})
    for (const int failing : {0, 3}) {
      SCOPED_TRACE(failing);
      const TempFolder folder;
      const std::set<std::string> said = failures(folder, failing, {.full_after_bytes = 1000}, in_background);
      ASSERT_EQ(said.size(), 1u);
      EXPECT_TRUE(said.begin()->starts_with(concat("step 2 is not saved: rank ", failing, ": cannot write ")))
          << *said.begin();
      EXPECT_TRUE(said.begin()->ends_with("No space left on device")) << *said.begin();
    }
}

TEST(CheckpointLayouts, TheFirstRankAsksForTheSpaceOfAll) {
  const TempFolder folder;
  std::int64_t all = 0;
  on_layout({.pipeline = 2, .expert = 2, .data = 2}, train::Compute::Float64, 8, [&](Rank& rank) {
    const std::int64_t mine = checkpoint::bytes_of(rank.capture());
    for (const std::string& bytes : comm::gather_texts(rank.mesh.all(), std::to_string(mine)))
      if (rank.mesh.all().rank() == 0) all += std::stoll(bytes);
  });
  const std::set<std::string> said = failures(folder, 0, {.free_bytes = all + (16 << 20) - 1000}, true);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said.begin()->starts_with(concat("cannot save step 2 to ", folder.path()))) << *said.begin();
}

// The sentences of all ranks of a layout that may not restore.
std::set<std::string> refusals(const Layout& at, const std::string& folder,
                               const std::function<void(train::RunConfig&)>& change) {
  std::vector<std::string> said(at.ranks());
  comm::run_threads(at.ranks(), [&](comm::World& world) {
    train::RunConfig config = config_of(at, train::Compute::Float64, 8);
    change(config);
    Rank rank(world, config);
    try {
      train::restore(rank.trainer, checkpoint::open_checkpoint(folder));
    } catch (const InputError& e) {
      said[world.rank()] = std::string(e.what()).substr(folder.size());
    }
  });
  return {said.begin(), said.end()};
}

TEST(CheckpointLayouts, WhatIsNotOfThisModelIsRefusedByAllRanks) {
  const TempFolder folder;
  on_layout({.expert = 2, .data = 2}, train::Compute::Float64, 8,
            [&](Rank& rank) { save(rank, folder.path()); });
  const std::string step = folder / "step_00000000";
  const Layout at{.pipeline = 2, .expert = 2, .data = 2};
  const auto expect = [&](const std::string& words, const std::function<void(train::RunConfig&)>& change) {
    const std::set<std::string> said = refusals(at, step, change);
    EXPECT_EQ(said.size(), 1u);
    EXPECT_NE(said.begin()->find(words), std::string::npos) << *said.begin();
  };
  expect("/model.safetensors.index.json has weights of other shapes: model.",
         [](train::RunConfig& c) { c.model.intermediate_size += 1; });
  expect("/model.safetensors.index.json lacks weights of this model: model.layers.0.",
         [](train::RunConfig& c) { c.model.first_k_dense_replace = 0; });
  expect("is no moment of this run's optimizer",
         [](train::RunConfig& c) { c.optimizer.type = optim::OptimizerType::Sgd; });
}

TEST(CheckpointLayouts, TheFirstRankFindsTheStartForAll) {
  const TempFolder folder;
  const auto find = [&](comm::World& world) {
    const comm::Mesh mesh(world, {.data = 3});
    return checkpoint::open_on_all(mesh.all(), [&]() -> std::optional<checkpoint::Opened> {
      EXPECT_EQ(world.rank(), 0);
      if (!fs::exists(folder / "step_00000000")) return {};
      return checkpoint::open_checkpoint(folder / "step_00000000");
    });
  };
  comm::run_threads(3, [&](comm::World& world) { EXPECT_FALSE(find(world)); });
  on_layout({.data = 2}, train::Compute::Float64, 8, [&](Rank& rank) { save(rank, folder.path()); });
  comm::run_threads(3,
                    [&](comm::World& world) { EXPECT_EQ(find(world)->folder(), folder / "step_00000000"); });
  fs::remove(folder / "step_00000000/model-00001-of-00002.safetensors");
  comm::run_threads(3, [&](comm::World& world) { EXPECT_THROW(find(world), InputError); });
}

}  // namespace
}  // namespace strata::test
