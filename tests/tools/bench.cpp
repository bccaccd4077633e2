// `strata bench`: what it reports adds up, whatever the machine's speed.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Bench : public ::testing::Test {
 protected:
  Json strata(Words words) const {
    words.push_back("--json");
    const Outcome o = place.strata(words);
    EXPECT_EQ(o.status, 0) << o.err;
    return Json::parse(o.out, nullptr, false);
  }
  double planned_flops(const std::string& recompute) const {
    const Json plan = strata({"plan", tiny_config(), "--set", "recompute.granularity=" + recompute});
    double sum = 0;
    for (const char* part : {"forward", "backward"})
      sum += plan["flops_per_token"][part]["total"].get<double>();
    return sum * plan["tokens_per_step"].get<double>();
  }
  // The floating-point operations of its jobs, a step.
  static double flops_in(const Json& jobs, const std::string& phase) {
    double sum = 0;
    for (const Json& job : jobs)
      if (phase.empty() || job["phase"] == phase) sum += job["flops"].get<double>();
    return sum;
  }

  Workplace place;
};

TEST_F(Bench, StepsAreSplitByJobAndPhase) {
  const Json runs = strata({"bench", "step", tiny_config(), "--residual", "vanilla,msar", "--precision",
                            "float32,bfloat16", "--steps", "2"});
  ASSERT_EQ(runs.size(), 4u);
  std::set<std::string> kinds;
  for (const Json& run : runs) {
    kinds.insert(run["residual"].get<std::string>() + " " + run["precision"].get<std::string>());
    ASSERT_EQ(run["seconds"].size(), 2u);
    double in_jobs = 0, all = run["seconds"][0].get<double>() + run["seconds"][1].get<double>();
    std::set<std::string> phases;
    for (const Json& job : run["jobs"]) {
      in_jobs += 2 * job["seconds"].get<double>();
      phases.insert(job["phase"].get<std::string>());
    }
    EXPECT_EQ(phases, (std::set<std::string>{"forward", "backward", "optimizer"}))
        << "nothing is computed twice";
    EXPECT_LT(in_jobs, all);
    EXPECT_NEAR(run["in_jobs"].get<double>(), in_jobs / all, 1e-9);
    EXPECT_EQ(flops_in(run["jobs"], ""), run["flops"].get<double>());
    EXPECT_EQ(2 * flops_in(run["jobs"], "forward"), flops_in(run["jobs"], "backward"));
  }
  EXPECT_EQ(kinds,
            (std::set<std::string>{"vanilla float32", "msar float32", "vanilla bfloat16", "msar bfloat16"}));
}

TEST_F(Bench, RecomputeIsAPhaseOfItsOwn) {
  for (const std::string recompute : {"none", "full"}) {
    const Json run = strata(
        {"bench", "step", tiny_config(), "--steps", "1", "--set", "recompute.granularity=" + recompute})[0];
    const double planned = planned_flops(recompute), again = flops_in(run["jobs"], "recompute");
    EXPECT_EQ(run["flops"], planned);
    EXPECT_EQ(flops_in(run["jobs"], "") - again, planned);
    EXPECT_EQ(again > 0, recompute == "full") << again;
  }
}

TEST_F(Bench, OpsHaveARowForEachSize) {
  const Json ops = strata({"bench", "ops", tiny_config(), "--steps", "1"});
  std::set<std::string> rows;
  for (const Json& job : ops["jobs"]) {
    const Json key{job["job"], job["phase"], job["call_flops"], job["call_bytes"]};
    EXPECT_TRUE(rows.insert(key.dump()).second) << key;
    const double calls = job["calls"].get<double>();
    EXPECT_EQ(job["flops"].get<double>(), calls * job["call_flops"].get<double>()) << key;
    EXPECT_EQ(job["bytes"].get<double>(), calls * job["call_bytes"].get<double>()) << key;
    EXPECT_GT(job["call_bytes"].get<double>(), 0) << key;
    EXPECT_GT(job["of_roof"].get<double>(), 0) << key;
  }
  EXPECT_GT(rows.size(), 20u);
  EXPECT_EQ(flops_in(ops["jobs"], ""), planned_flops("none"));
}

TEST_F(Bench, ComparesStepByStep) {
  place.write("long.json", [&] {
    std::ifstream file(tiny_config());
    Json config = Json::parse(file);
    config["training"]["seq_length"] = 4 * config["training"]["seq_length"].get<int>();
    return config.dump();
  }());
  const Json c = strata({"bench", "compare", "long.json", tiny_config(), "--steps", "3"});
  EXPECT_EQ(c["a"]["config"], "long.json");
  ASSERT_EQ(c["a"]["seconds"].size(), 3u);
  std::vector<double> ratios;
  for (int i = 0; i < 3; ++i)
    ratios.push_back(c["a"]["seconds"][i].get<double>() / c["b"]["seconds"][i].get<double>());
  std::sort(ratios.begin(), ratios.end());
  EXPECT_EQ(c["ratio"]["min"], ratios[0]);
  EXPECT_EQ(c["ratio"]["median"], ratios[1]);
  EXPECT_EQ(c["ratio"]["max"], ratios[2]);
}

TEST_F(Bench, TablesForPeople) {
  const Outcome step = place.strata({"bench", "step", tiny_config(), "--steps", "1"});
  EXPECT_EQ(step.status, 0) << step.err;
  for (const char* word : {" threads; roofs: ", "msar float32: ", "of the gemm peak", "  gemm ", "of roof"})
    EXPECT_NE(step.out.find(word), std::string::npos) << word << "\n" << step.out;
  const Outcome compare = place.strata({"bench", "compare", tiny_config(), tiny_config(), "--steps", "1"});
  EXPECT_NE(compare.out.find("A / B, step by step in turns: median "), std::string::npos) << compare.out;
}

TEST_F(Bench, WrongUsage) {
  const auto says = [&](const Words& words, const std::string& sentence) {
    const Outcome o = place.strata(words);
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.out, "");
    EXPECT_NE(o.err.find(sentence), std::string::npos) << o.err;
  };
  says({"bench", "step", tiny_config(), "--residual", "vanilla,mch"},
       "--residual is \"mch\", allowed is \"vanilla\"");
  says({"bench", "step", tiny_config(), "--precision", "float16"}, "precision.compute is \"float16\"");
  says({"bench", "step", tiny_config(), "--steps", "0"}, "--steps");
  says({"bench", "compare", tiny_config()}, "OTHER is required");
  says({"bench", "ops"}, "CONFIG is required");
  says({"bench"}, "bench");
}

}  // namespace
}  // namespace strata::test
