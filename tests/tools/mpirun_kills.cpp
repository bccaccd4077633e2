// One rank of a run of four is killed, at any moment. STRATA_TEST_RANK_KILLS says how often (default 20).
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "mpirun_test.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

// A kill leaves the run at its last complete checkpoint; it ends with the bits of one that was not disturbed.
class Killed : public MpirunTest {
 protected:
  static constexpr int kRanks = 4;
  using Clock = std::chrono::steady_clock;
  using Files = std::map<std::string, std::string>;

  static int begin(const Workplace& at, const std::string& folder) {
    return at.start(
        mpirun(kRanks, settings(folder, stages({"parallel.expert_model_parallel_size=2",
                                                "training.train_iters=20", "checkpoint.save_interval=1"}))));
  }
  static void wait_for_ranks(int mpirun) {
    wait_until([&] { return int(ranks_of(mpirun).size()) == kRanks; });
  }
  // What the run is at.
  static std::string phase(const Workplace& at, const std::string& folder) {
    if (at.read(".err").find("info: step ") == std::string::npos) return "starting";
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(at.path(folder + "/checkpoints"), gone))
      if (entry.path().filename().string().starts_with(".step_")) return "saving";
    return "stepping";
  }
  static Files result(const Workplace& at, const std::string& folder) {
    Files files;
    const std::string step = folder + "/checkpoints/step_00000020/";
    for (const auto& entry : fs::directory_iterator(at.path(step)))
      if (entry.path().extension() == ".safetensors")
        files[entry.path().filename()] = at.read(step + entry.path().filename().string());
    return files;
  }

  // From when its ranks are there; its files become those that every other run must end with.
  std::chrono::microseconds run_undisturbed() {
    const int child = begin(place, "whole");
    wait_for_ranks(child);
    const auto start = Clock::now();
    const Outcome o = place.wait_for(child);
    EXPECT_EQ(o.status, 0) << o.err;
    wanted = result(place, "whole");
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  }

  // Runs in a place of their own until `kills` were killed, at moments up to `longest`.
  struct Lane {
    int kills;
    std::mt19937 random;
    std::map<std::string, int> phases;
  };
  void kill_and_restart(Lane& lane, std::chrono::microseconds longest) const {
    Workplace at;
    for (const char* file : {"text.bin", "text.idx"}) fs::copy_file(place.path(file), at.path(file));
    for (int runs = 0; lane.kills > 0; ++runs) {
      const std::string folder = "run" + std::to_string(runs);
      for (bool done = false; !done;) {
        const int child = begin(at, folder);
        std::string was;
        if (lane.kills > 0) {
          wait_for_ranks(child);
          std::this_thread::sleep_for(lane.random() % 1000 * longest / 1000);
          was = phase(at, folder);
          if (const std::vector<int> ranks = ranks_of(child); int(ranks.size()) == kRanks)
            kill(ranks[lane.random() % kRanks], SIGKILL);
        }
        const auto killed = Clock::now();
        const Outcome o = at.wait_for(child);
        done = o.status == 0;
        EXPECT_EQ(o.err.find("damaged"), std::string::npos) << o.err;
        if (done) continue;
        ASSERT_EQ(o.status, 137) << o.err;
        EXPECT_LT(Clock::now() - killed, std::chrono::seconds(20));
        --lane.kills, ++lane.phases[was];
      }
      EXPECT_EQ(result(at, folder), wanted) << folder;
    }
  }

  Files wanted;
};

// mpirun leaves the other ranks two seconds to end: meanwhile, runs in other places go on.
TEST_F(Killed, EveryRestartGoesOn) {
  constexpr int kLanes = 4;
  const char* wish = std::getenv("STRATA_TEST_RANK_KILLS");
  const int kills = wish ? std::atoi(wish) : 20;
  const std::chrono::microseconds whole = run_undisturbed();
  std::vector<Lane> lanes;
  for (int i = 0; i < kLanes; ++i)
    lanes.push_back({(kills + i) / kLanes, std::mt19937(unsigned(20261130 + i)), {}});
  std::vector<std::thread> threads;
  for (Lane& lane : lanes) threads.emplace_back([&] { kill_and_restart(lane, 3 * whole / 2); });
  for (std::thread& thread : threads) thread.join();
  std::map<std::string, int> phases;
  for (const Lane& lane : lanes)
    for (const auto& [what, times] : lane.phases) phases[what] += times;
  for (const auto& [what, times] : phases) std::printf("killed while %s: %d\n", what.c_str(), times);
}

}  // namespace
}  // namespace strata::test
