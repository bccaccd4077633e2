// What a run reads: its seed's order of the data, batch after batch. A NaN in each step makes the run write
// its batches down.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/safetensors.h"
#include "data/dataset.h"
#include "data/files.h"
#include "support/small_model.h"
#include "train/batch_file.h"
#include "train/run.h"

namespace strata::test {
namespace {

constexpr std::int64_t kLength = 7, kRows = 3, kSteps = 3;

// The batches of the first steps.
std::vector<HostBatch> batches(const Folder& folder, const std::string& data, std::int64_t seed) {
  train::RunConfig c;
  c.run.seed = seed;
  c.run.output_dir = folder / ("run" + std::to_string(seed));
  c.model = small_config({});
  c.model.vocab_size = 1000, c.model.num_hidden_layers = 1, c.model.first_k_dense_replace = 0;
  c.data.train = {{.path = data}};
  c.training.seq_length = kLength, c.training.micro_batch_size = 1, c.training.global_batch_size = kRows;
  c.training.train_iters = kSteps;
  train::RunOptions options;
  for (std::int64_t step = 1; step <= kSteps; ++step) options.faults.nan_at_step.insert(step);
  const std::unique_ptr<comm::World> alone = comm::self_world();
  train::run(c, {}, options, comm::Mesh(*alone, {}));
  std::vector<HostBatch> all;
  for (std::int64_t step = 1; step <= kSteps; ++step)
    all.push_back(
        train::load_batch(concat(*c.run.output_dir, "/skipped/step_0000000", step, ".safetensors")));
  return all;
}

TEST(RunData, SeedChoosesTheOrderAndStepsGoThroughIt) {
  const Folder folder;
  const std::string data = write_documents(folder, "data", numbered_documents(60, 6));
  std::set<std::vector<std::int64_t>> seen;
  for (const std::int64_t seed : {1, 2}) {
    data::DataSection section;
    section.train = {{.path = data}};
    data::TrainingData order(section, kLength, std::uint64_t(seed), 1000, kRows * kSteps);
    const std::vector<HostBatch> read = batches(folder, data, seed);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const HostBatch want = order.batch(step * kRows, kRows);
      EXPECT_EQ(read[std::size_t(step)].input_ids, want.input_ids)
          << "step " << step + 1 << ", seed " << seed;
      EXPECT_EQ(read[std::size_t(step)].labels, want.labels);
      seen.insert(want.input_ids);
    }
  }
  EXPECT_EQ(seen.size(), std::size_t(2 * kSteps)) << "no batch comes twice";
}

}  // namespace
}  // namespace strata::test
