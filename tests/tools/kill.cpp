// SIGKILL at random moments, half of them inside a save: every restart goes on from the newest whole
// checkpoint, and the run ends with the bits of one that was never disturbed. STRATA_TEST_KILLS says how
// often (default 30).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "strata_binary.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

class Kill : public ::testing::Test {
 protected:
  Kill() {
    place.write("text.txt", sample_text(900));
    EXPECT_EQ(place.strata({"prepare", "text.txt", "--output", "text"}).status, 0);
  }

  std::vector<std::string> words(const std::string& folder) const {
    return {"train", tiny_config(),
            "--set", "data.train=[{\"path\":\"text\"}]",
            "--set", "training.train_iters=60",
            "--set", "checkpoint.save_interval=1",
            "--set", "logging.peak_flops=0",
            "--set", "run.output_dir=" + folder};
  }

  // The newest step whose folder has its name: it is whole, by the store's promise.
  std::string newest(const std::string& folder) const {
    std::string name;
    if (!fs::exists(place.path(folder + "/checkpoints"))) return name;
    for (const auto& entry : fs::directory_iterator(place.path(folder + "/checkpoints")))
      if (const std::string n = entry.path().filename(); n.starts_with("step_")) name = std::max(name, n);
    return name;
  }

  std::vector<std::string> result(const std::string& folder) const {
    std::vector<std::string> files;
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "state.json"})
      files.push_back(place.read(folder + "/checkpoints/step_00000060/" + file));
    return files;
  }

  Workplace place;
};

TEST_F(Kill, EveryRestartGoesOnFromTheNewestWholeCheckpoint) {
  const char* wish = std::getenv("STRATA_TEST_KILLS");
  const int kills = wish ? std::atoi(wish) : 30;
  ASSERT_EQ(place.strata(words("whole")).status, 0);
  std::mt19937 random(20261130);
  int killed = 0, runs = 0;
  while (killed < kills) {
    const std::string folder = "run" + std::to_string(runs++);
    for (bool done = false; !done;) {
      const std::string from = newest(folder);
      std::vector<std::string> arguments = words(folder);
      Outcome o;
      if (killed >= kills) {
        o = place.strata(arguments);
      } else if (killed % 2 == 0) {
        // A save is some twenty file operations.
        arguments.insert(arguments.end(), {"--inject", "kill@save=" + std::to_string(1 + random() % 24)});
        o = place.strata(arguments);
      } else {
        o = place.strata_killed(arguments, int(random() % 400'000));
      }
      done = o.status == 0;
      if (!done) {
        ASSERT_EQ(o.status, -1) << o.err;
        ++killed;
      }
      if (!from.empty() && o.err.find("goes on behind") != std::string::npos) {
        EXPECT_NE(o.err.find("checkpoints/" + from + "\n"), std::string::npos) << from << ":\n" << o.err;
      }
      EXPECT_EQ(o.err.find("damaged"), std::string::npos) << o.err;
    }
    EXPECT_EQ(result(folder), result("whole")) << folder;
  }
}

}  // namespace
}  // namespace strata::test
