#include "mpirun_test.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace strata::test {

MpirunTest::MpirunTest(int lines) {
  place.write("text.txt", sample_text(lines));
  EXPECT_EQ(place.strata({"prepare", "text.txt", "--output", "text"}).status, 0);
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                           "OMPI_MCA_rmaps_base_oversubscribe", "OMPI_MCA_mpi_yield_when_idle"})
    setenv(name, "1", 1);
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
}

Words MpirunTest::settings(const std::string& folder, const Words& more) {
  Words words{"train", tiny_config()};
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

Words MpirunTest::mpirun(int ranks, const Words& arguments, const Words& inject) {
  Words words{"mpirun", "-n", std::to_string(ranks), STRATA_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const std::string& fault : inject) words.insert(words.end(), {"--inject", fault});
  return words;
}

Words MpirunTest::stages(Words more) {
  more.push_back("parallel.pipeline_model_parallel_size=2");
  return more;
}

std::vector<int> MpirunTest::ranks_of(int mpirun) {
  std::ifstream file("/proc/" + std::to_string(mpirun) + "/task/" + std::to_string(mpirun) + "/children");
  std::vector<int> ranks;
  for (int id; file >> id;) ranks.push_back(id);
  return ranks;
}

void wait_until(const std::function<bool()>& done) {
  for (int i = 0; i < 6000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace strata::test
