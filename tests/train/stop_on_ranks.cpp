// Runs on ranks that are threads of this process, asked to stop in each phase: all ranks stop together, what
// they have is saved, and the same run goes on to the bits of one that nobody stopped.
#include <gtest/gtest.h>
#include <omp.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/json_value.h"
#include "data/megatron_writer.h"
#include "support/temp_folder.h"
#include "train/layout.h"
#include "train/progress.h"
#include "train/run.h"
#include "train/stop.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kRanks = 4, kSteps = 4;

class StopOnRanks : public ::testing::Test {
 protected:
  StopOnRanks() {
    data::MegatronWriter text(folder / "text", 264, false);
    std::vector<std::int32_t> ids(40000);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = std::int32_t(i * i / 7 % 256);
    text.append(ids);
    text.end_document();
    text.finish();
  }

  train::RunConfig config(const std::string& name, const Words& more) const {
    Words settings{"run.output_dir=" + (folder / name),
                   "data.train=[{\"path\":\"" + (folder / "text") + "\"}]",
                   "data.validation={\"held_out\":{\"path\":\"" + (folder / "text") + "\"}}",
                   concat("training.train_iters=", kSteps),
                   "training.eval_interval=2",
                   "training.eval_iters=2",
                   "logging.peak_flops=0",
                   "resilience.watchdog_seconds=20",
                   "parallel.pipeline_model_parallel_size=2"};
    settings.insert(settings.end(), more.begin(), more.end());
    train::RunConfig c;
    load_config(c, STRATA_SOURCE_DIR "/configs/tiny.json", settings);
    return c;
  }

  // Throws what a rank threw; a rank that waits for one that has stopped without it fails in seconds.
  void run(const std::string& name, const Words& more = {}, const Words& faults = {}) const {
    const train::RunConfig c = config(name, more);
    comm::run_threads(kRanks, [&](comm::World& world) {
      omp_set_num_threads(1);
      train::run(c, {}, {.faults = train::parse_faults(faults, world.rank())},
                 comm::Mesh(world, train::mesh_shape(c, world.size())));
    });
  }

  std::string newest(const std::string& name) const {
    return folder / name + "/checkpoints/" + names_in(folder / name + "/checkpoints").back();
  }
  train::Progress saved(const std::string& name) const {
    return train::parse_progress(read_file(newest(name) + "/state.json"), "state.json");
  }
  // What the metrics have of one name, by step.
  std::map<std::int64_t, double> metric(const std::string& name, const std::string& what) const {
    std::istringstream lines(read_file(folder / name + "/metrics.jsonl"));
    std::map<std::int64_t, double> all;
    for (std::string line; std::getline(lines, line);) {
      const JsonValue values = parse_json(line, "metrics", Origin::File);
      if (const JsonValue* value = values.find(what)) all[values.find("iteration")->integer] = value->real;
    }
    return all;
  }

  // The rest of a run that was stopped, and that of one that was not: the same bits.
  void expect_same_end(const std::string& name) const {
    run(name);
    run("whole");
    for (const char* what : {"lm loss", "grad norm", "lm loss validation held_out"})
      EXPECT_EQ(metric(name, what), metric("whole", what)) << what;
    EXPECT_EQ(saved(name), saved("whole"));
    for (const std::string& file : names_in(newest("whole")))
      if (file.ends_with(".safetensors")) {
        EXPECT_TRUE(read_file(newest(name) + "/" + file) == read_file(newest("whole") + "/" + file)) << file;
      }
  }

  const TempFolder folder;
};

TEST_F(StopOnRanks, WhileTheRunStartsAndWhileItLoadsACheckpoint) {
  {
    const train::StopSignals signals;
    std::raise(SIGTERM);
    run("run");
    EXPECT_EQ(saved("run").step, 0);
  }
  {
    const train::StopSignals signals;
    run("run", {}, {"term@step=1,rank=3"});
    EXPECT_EQ(saved("run").step, 1);
  }
  {
    const train::StopSignals signals;
    std::raise(SIGUSR1);
    run("run");
    EXPECT_EQ(saved("run").step, 1) << "as it was found";
  }
  expect_same_end("run");
}

// The signal comes once step 2 is told, when its evaluation of several hundred batches begins.
TEST_F(StopOnRanks, InTheMiddleOfAnEvaluation) {
  {
    const train::StopSignals signals;
    std::jthread sender([&](const std::stop_token& over) {
      const auto told = [&] {
        return fs::exists(folder / "run/metrics.jsonl") && metric("run", "lm loss").size() == 2;
      };
      while (!over.stop_requested() && !told()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::raise(SIGTERM);
    });
    run("run", {"training.eval_iters=1000"});
  }
  EXPECT_EQ(saved("run").step, 2);
  EXPECT_TRUE(saved("run").evaluation_due);
  EXPECT_TRUE(metric("run", "lm loss validation held_out").empty());
  expect_same_end("run");
}

// It comes to rank 3, which writes its part, while others are at theirs or train on.
TEST_F(StopOnRanks, InTheMiddleOfASave) {
  for (const char* async : {"true", "false"}) {
    const train::StopSignals signals;
    const std::string name = concat("async_", async);
    run(name, {"checkpoint.save_interval=1", concat("checkpoint.async_save=", async)},
        {"term@save=3,rank=3"});
    const train::Progress progress = saved(name);
    EXPECT_GE(progress.step, 1);
    EXPECT_LT(progress.step, kSteps);
    EXPECT_EQ(names_in(folder / name + "/checkpoints").size(), std::size_t(progress.step));
  }
  const train::StopSignals signals;
  expect_same_end("async_false");
}

}  // namespace
}  // namespace strata::test
