// Runs on several ranks as mpirun starts them: the numbers of one rank, and how all ranks end together. A
// launch costs a second: few of them, each for several things. STRATA_TEST_RANK_KILLS says how often a rank
// is killed (default 20).
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/error.h"
#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

class Mpirun : public ::testing::Test {
 protected:
  Mpirun() {
    place.write("text.txt", sample_text(900));
    EXPECT_EQ(place.strata({"prepare", "text.txt", "--output", "text"}).status, 0);
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                             "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_mpi_yield_when_idle"})
      setenv(name, "1", 1);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
  }

  static Words settings(const std::string& folder, const Words& more) {
    Words words{"train", STRATA_SOURCE_DIR "/configs/tiny.json"};
    Words all{"data.train=[{\"path\":\"text\"}]",
              "data.validation={\"held_out\":{\"path\":\"text\"}}",
              "training.train_iters=6",
              "training.eval_iters=2",
              "logging.peak_flops=0",
              "precision.compute=float64",
              "run.output_dir=" + folder};
    all.insert(all.end(), more.begin(), more.end());
    for (const std::string& setting : all) words.insert(words.end(), {"--set", setting});
    return words;
  }
  static Words mpirun(int ranks, Words arguments, const Words& inject = {}) {
    Words words{"mpirun", "-n", std::to_string(ranks), STRATA_BINARY};
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (const std::string& fault : inject) words.insert(words.end(), {"--inject", fault});
    return words;
  }
  static Words stages(Words more = {}) {
    more.push_back("parallel.pipeline_model_parallel_size=2");
    return more;
  }

  std::vector<Json> metrics(const std::string& folder) const {
    std::istringstream lines(place.read(folder + "/metrics.jsonl"));
    std::vector<Json> all;
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }
  void expect_same(const std::string& folder, const std::string& wanted) const {
    const std::vector<Json> a = metrics(folder), b = metrics(wanted);
    ASSERT_FALSE(a.empty());
    ASSERT_LE(a.size(), b.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(a.size(), 30); ++i)
      for (const char* name :
           {"iteration", "lm loss", "grad norm", "consumed samples", "lm loss validation held_out"})
        if (b[i].contains(name)) {
          EXPECT_NEAR(a[i].at(name).get<double>(), b[i].at(name).get<double>(),
                      1e-9 * std::abs(b[i].at(name).get<double>()))
              << folder << ", line " << i << ", " << name;
        }
  }

  Workplace place;
};

// Or for half a minute.
void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 6000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// No message is sent before it is asked for, so that two ranks which both sent first would wait for ever.
struct NothingEager {
  NothingEager() { setenv("OMPI_MCA_btl_vader_eager_limit", "56", 1); }  // Open MPI's least
  ~NothingEager() { unsetenv("OMPI_MCA_btl_vader_eager_limit"); }
};

TEST_F(Mpirun, GivesTheNumbersOfOneRank) {
  const NothingEager nothing_eager;
  ASSERT_EQ(place.strata(settings("one", {})).status, 0);
  const Outcome two = place.command(mpirun(2, settings("two", stages({"backend.check_collectives=true"}))));
  ASSERT_EQ(two.status, 0) << two.err;
  expect_same("two", "one");
  EXPECT_EQ(metrics("two").size(), metrics("one").size());
  EXPECT_EQ(count(two.err, "step 1/6"), 1) << two.err;
  EXPECT_EQ(count(two.err, "layout: "), 1) << two.err;
  const Outcome four = place.command(mpirun(
      4, settings("four", stages({"parallel.expert_model_parallel_size=2", "training.micro_batch_size=1",
                                  "parallel.pipeline_schedule=zero_bubble",
                                  "optimizer.use_distributed_optimizer=true"}))));
  ASSERT_EQ(four.status, 0) << four.err;
  expect_same("four", "one");
}

// Reference cases under mpirun, one launch for each number of ranks.
TEST_F(Mpirun, GivesTheReferencesNumbers) {
  const NothingEager nothing_eager;
  struct Launch {
    const char* name;
    int ranks;
    Words layout;
  };
  const std::vector<Launch> launches{
      {"layout_mhc", 2, {"pipeline_model_parallel_size=2", "virtual_pipeline_model_parallel_size=4"}},
      {"layout_msar_block", 4, {"pipeline_model_parallel_size=4", "virtual_pipeline_model_parallel_size=2"}},
      {"layout_vanilla", 3, {"pipeline_model_parallel_size=3", "virtual_pipeline_model_parallel_size=2"}},
      {"layout_msar_block",
       5,
       {"pipeline_model_parallel_size=5", "virtual_pipeline_model_parallel_size=2",
        "pipeline_model_parallel_layout=[0,1,1,1,1,1,1,1,1,0]"}},
      {"layout_msar_block",
       8,
       {"pipeline_model_parallel_size=2", "virtual_pipeline_model_parallel_size=2",
        "expert_model_parallel_size=2"}}};
  for (const Launch& l : launches) {
    const std::string dir = std::string(STRATA_TEST_FIXTURES) + "/golden/" + l.name;
    Words words{"trace",
                "--config",
                dir + "/config.json",
                "--weights",
                dir + "/model.safetensors",
                "--batch",
                dir + "/batch.safetensors",
                "--steps",
                "5",
                "--compare",
                dir + "/expected.safetensors",
                "--set",
                "precision.compute=float64"};
    for (const std::string& key : l.layout) words.insert(words.end(), {"--set", "parallel." + key});
    const Outcome r = place.command(mpirun(l.ranks, words));
    EXPECT_EQ(r.status, 0) << l.name << " on " << l.ranks << " ranks\n" << r.out << r.err;
    EXPECT_NE(r.out.find(" 0 beyond tolerance"), std::string::npos) << r.out;
  }
}

TEST_F(Mpirun, RefusesOnceWhatIsWrongOnAllRanks) {
  const Outcome layout = place.command(mpirun(3, settings("run", stages())));
  EXPECT_EQ(layout.status, 2);
  EXPECT_EQ(count(layout.err, "strata: "), 1) << layout.err;
  EXPECT_NE(layout.err.find(
                "strata: parallel.pipeline_model_parallel_size 2 and expert_model_parallel_size 1 need a "
                "multiple of 2 ranks, there are 3: start 2 or 4 with mpirun -n"),
            std::string::npos)
      << layout.err;
  EXPECT_NE(layout.err.find("3 ranks can be pipeline x expert 1 x 1\n"), std::string::npos) << layout.err;
  EXPECT_FALSE(fs::exists(place.path("run")));
  const Outcome key = place.command(mpirun(2, settings("run", {"training.train_itres=3"})));
  EXPECT_EQ(key.status, 2);
  EXPECT_EQ(count(key.err, "strata: "), 1) << key.err;
}

TEST_F(Mpirun, AFailingRankEndsAllWithItsSentence) {
  const Outcome o = place.command(mpirun(2, settings("run", stages()), {"throw@step=2,rank=1"}));
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(count(o.err, "strata: "), 1) << o.err;
  EXPECT_NE(o.err.find("strata: rank 1: an injected error before step 2\n"), std::string::npos) << o.err;
}

TEST_F(Mpirun, TheWatchdogNamesARankThatSleeps) {
  const Outcome o = place.command(
      mpirun(2, settings("run", stages({"resilience.watchdog_seconds=1"})), {"sleep@step=2,rank=1"}));
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.err.find("s for rank 1 (pp 1/2 dp 0/1 ep 0/1): "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("rank 1 (pp 1/2 dp 0/1 ep 0/1) waits for nobody"), std::string::npos) << o.err;
  EXPECT_EQ(count(o.err, "strata: rank 1 (pp 1/2 dp 0/1 ep 0/1) did not come within 1 s"), 1) << o.err;
}

TEST_F(Mpirun, StopsOnAllRanksAfterTheSameStepAndGoesOn) {
  constexpr const char* kLong = "training.train_iters=3000";
  const Words words = settings("run", stages({kLong}));
  const Outcome stopped = place.command(mpirun(2, words, {"term@step=3,rank=1"}));
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_NE(stopped.err.find("stopped by a signal to another rank after step 3 of 3000, saved"),
            std::string::npos)
      << stopped.err;
  // mpirun hands this signal on.
  const int child = place.start(mpirun(2, words));
  wait_until([&] { return place.read(".err").find("step 20/") != std::string::npos; });
  kill(child, SIGUSR1);
  const Outcome again = place.wait_for(child);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.err.find("goes on behind step 3"), std::string::npos) << again.err;
  EXPECT_NE(again.err.find("stopped by SIGUSR1 after step "), std::string::npos) << again.err;
  ASSERT_EQ(place.strata(settings("one", {kLong, "resilience.exit_duration_in_mins=0.01"})).status, 0);
  expect_same("run", "one");
}

// Stand-ins for Slurm: sbatch runs a copy of the script and sends the signal that its header asks for, srun
// is mpirun, scontrol notes what it is told.
constexpr const char* kSbatch = R"(#!/bin/bash
[[ $1 == --ntasks=* ]] || exit 9
export SLURM_JOB_ID=7 SLURM_SUBMIT_DIR=$PWD SLURM_NTASKS=${1#--ntasks=}
shift
grep -q '^#SBATCH --signal=B:USR1@120$' "$1" || exit 9
cp "$1" spooled
bash spooled "${@:2}" & job=$!
until grep -q 'step 20/' .err || ! kill -0 $job; do sleep 0.01; done
kill -$SIGNAL $job
wait $job
)";
constexpr const char* kSrun = R"(#!/bin/bash
[[ $1 == --mpi=list ]] && { echo 'MPI plugin types are... none pmix'; exit; }
while [[ $1 == -* ]]; do shift; done
exec mpirun -n "$SLURM_NTASKS" "$@"
)";

// Before its time limit a job comes back; one that is cancelled saves, too, and stays away.
TEST_F(Mpirun, ASlurmJobSavesBeforeItEnds) {
  fs::create_directory(place.path("bin"));
  for (const auto& [name, text] :
       std::map<std::string, std::string>{{"bin/sbatch", kSbatch},
                                          {"bin/srun", kSrun},
                                          {"bin/scontrol", "#!/bin/bash\necho $* >>requeued\n"}}) {
    place.write(name, text);
    fs::permissions(place.path(name), fs::perms::owner_all);
  }
  for (const char* signal : {"USR1", "TERM"}) {
    Words words{"env",
                "PATH=bin:" + std::string(std::getenv("PATH")),
                std::string("SIGNAL=") + signal,
                "STRATA=" STRATA_BINARY,
                "sbatch",
                "--ntasks=2",
                STRATA_SOURCE_DIR "/scripts/slurm_train"};
    const Words run = settings(signal, stages({"training.train_iters=3000"}));
    words.insert(words.end(), run.begin() + 1, run.end());
    const Outcome o = place.command(words);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find("stopped by SIGUSR1 after step "), std::string::npos) << o.err;
  }
  EXPECT_EQ(place.read("requeued"), "requeue 7\n") << "once";
}

// Ranks that srun starts learn from Slurm how many of them share a host, in Slurm's short form.
TEST_F(Mpirun, ARankOfSlurmTakesItsShareOfTheHost) {
  const int all = int(std::thread::hardware_concurrency());
  for (const auto& [node, ranks] : std::vector<std::pair<const char*, int>>{{"0", 2}, {"2", 2}, {"3", 1}}) {
    Words words{"env",
                "-u",
                "OMP_NUM_THREADS",
                "SLURM_STEP_TASKS_PER_NODE=2(x3),1",
                std::string("SLURM_NODEID=") + node,
                STRATA_BINARY};
    const Words run = settings(std::string("node") + node, {"training.train_iters=3"});
    words.insert(words.end(), run.begin(), run.end());
    const Outcome o = place.command(words);
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.err.find(" cpu, " + std::to_string(std::max(1, all / ranks)) + " threads"), std::string::npos)
        << o.err;
  }
}

// A kill leaves the run at its last complete checkpoint; it ends with the bits of one that was not disturbed.
class Killed : public Mpirun {
 protected:
  static constexpr int kRanks = 4;
  using Clock = std::chrono::steady_clock;
  using Files = std::map<std::string, std::string>;

  static int begin(const Workplace& at, const std::string& folder) {
    return at.start(
        mpirun(kRanks, settings(folder, stages({"parallel.expert_model_parallel_size=2",
                                                "training.train_iters=20", "checkpoint.save_interval=1"}))));
  }
  // The processes that mpirun has started.
  static std::vector<int> ranks_of(int mpirun) {
    std::ifstream file("/proc/" + std::to_string(mpirun) + "/task/" + std::to_string(mpirun) + "/children");
    std::vector<int> ranks;
    for (int id; file >> id;) ranks.push_back(id);
    return ranks;
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
