// Runs on several ranks as mpirun starts them: the numbers of one rank, and how all ranks end together. A
// launch costs a second: few of them, each for several things.
#include <omp.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mpirun_test.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class Mpirun : public MpirunTest {
 protected:
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
};

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

TEST_F(Mpirun, CommandsOfOneRankAreDoneByTheFirst) {
  const Outcome o = place.command(mpirun(
      2, {"verify-layout", tiny_config(), "--layouts", "dp=2", "--steps", "1", "--set", "backend.comm=mpi"}));
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(count(o.out, "all equal one rank"), 1) << o.out;
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
  const int all = omp_get_num_procs();
  for (const auto& [node, ranks] : std::vector<std::pair<const char*, int>>{{"0", 2}, {"2", 2}, {"3", 1}}) {
    Words words{"env",
                "-u",
                "OMP_NUM_THREADS",
                "-u",
                "SLURM_CPU_BIND_TYPE",
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

}  // namespace
}  // namespace strata::test
