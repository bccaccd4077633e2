// `strata verify-layout`: layouts that agree with one rank, differences that are found, and what wrong
// layouts are told.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "strata_binary.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;

Outcome verify(const std::string& layouts, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"verify-layout", tiny_config(), "--layouts", layouts});
  return Workplace().strata(more);
}

TEST(VerifyLayout, LayoutsEqualOneRank) {
  const Outcome o = verify("pp=2,mbs=1;pp=2,dp=2,ep=2,schedule=zero_bubble", {"--json", "--steps", "4"});
  ASSERT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_EQ(o.err, "");
  const Json j = Json::parse(o.out);
  EXPECT_EQ(j.at("steps"), 4);
  EXPECT_EQ(j.at("compute"), "float64") << "unless the configuration names another";
  EXPECT_EQ(j.at("tolerance"), 1e-9);
  ASSERT_EQ(j.at("loss").size(), 4u);
  EXPECT_NEAR(j.at("loss")[0], std::log(264), 0.1) << "random tokens";
  EXPECT_LT(j.at("loss")[3], j.at("loss")[0]);
  ASSERT_EQ(j.at("layouts").size(), 2u);
  for (const Json& l : j.at("layouts")) {
    EXPECT_EQ(l.at("equal"), true);
    EXPECT_LT(l.at("worst").at("difference"), 1e-11);
    EXPECT_FALSE(l.contains("first"));
  }
  const Json &pipeline = j.at("layouts")[0], &both = j.at("layouts")[1];
  EXPECT_EQ(pipeline.at("layout"), "pp=2,mbs=1");
  EXPECT_EQ(pipeline.at("ranks"), 2);
  EXPECT_DOUBLE_EQ(pipeline.at("bubble"), 0.2) << "four micro-batches";
  // Two items cross the cut: b_0 and the block that ends there; d 16, 4 x 32 tokens, float64.
  for (const Json& rank : pipeline.at("sent_per_step")) {
    EXPECT_EQ(rank.at("pipeline").at("bytes"), 2 * 16 * 4 * 32 * 8);
    EXPECT_EQ(rank.at("all_to_all").at("bytes"), 0);
    EXPECT_GT(rank.at("reductions").at("bytes"), 0) << "the tied head";
  }
  ASSERT_EQ(both.at("sent_per_step").size(), 4u);
  EXPECT_EQ(both.at("sent_per_step")[0].at("all_to_all").at("bytes"), 0) << "a dense layer";
  EXPECT_GT(both.at("sent_per_step")[3].at("all_to_all").at("bytes"), 0);
}

TEST(VerifyLayout, PrintsATable) {
  const Outcome o = verify("ep=2", {"--set", "data.reset_attention_mask=true"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(
      o.out.starts_with("3 steps of 4 x 32 tokens (random), float64, tolerance 1e-09; loss on one "
                        "rank 5."))
      << o.out;
  EXPECT_NE(o.out.find("\nep=2                  2     0.0%"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("\n  rank 1   sends a step       0.000 MB pipeline,"), std::string::npos) << o.out;
  EXPECT_TRUE(o.out.ends_with("\nall equal one rank\n")) << o.out;
}

TEST(VerifyLayout, BFloat16ProvesNothingByItself) {
  const Outcome o = verify("pp=2", {"--set", "precision.compute=bfloat16"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err,
            "strata: precision.compute bfloat16 has no tolerance that proves a layout: leave it at float64, "
            "or give --tolerance\n");
}

// Sums in another order have other roundings: no layout of several ranks has the same bits.
TEST(VerifyLayout, NamesTheFirstDifference) {
  const std::vector<std::string> exact{"--tolerance", "0", "--set", "precision.compute=float32"};
  const Outcome o = verify("ep=2;pp=2", exact);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.out.find("float32, tolerance 0;"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("\n  differs first in step 1 "), std::string::npos) << o.out;
  EXPECT_TRUE(o.out.ends_with("\n2 of 2 differ\n")) << o.out;

  std::vector<std::string> json = exact;
  json.push_back("--json");
  const Outcome again = verify("ep=2", json);
  EXPECT_EQ(again.status, 1);
  const Json j = Json::parse(again.out).at("layouts")[0], first = j.at("first");
  EXPECT_EQ(j.at("equal"), false);
  EXPECT_EQ(first.at("step"), 1);
  EXPECT_GT(first.at("difference"), 0);
  EXPECT_LT(first.at("difference"), 1e-5);
  EXPECT_NE(first.at("one_rank"), first.at("here"));
  EXPECT_GE(j.at("worst").at("difference"), first.at("difference"));
  const std::string tensor = first.at("tensor");
  EXPECT_NE(o.out.find("differs first in step 1 " + tensor + ": "), std::string::npos) << o.out;
}

TEST(VerifyLayout, TakesTheData) {
  const Workplace place;
  place.write("text.txt", sample_text(400));
  ASSERT_EQ(place.strata({"prepare", "text.txt", "--output", "text"}).status, 0);
  const Outcome o = place.strata({"verify-layout", tiny_config(), "--layouts", "dp=2", "--steps", "1",
                                  "--set", R"(data.train=[{"path": "text"}])"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_TRUE(o.out.starts_with("1 steps of 4 x 32 tokens (data.train), ")) << o.out;
}

const std::string kValid =
    "; valid here are pp x v from 1 to 2 (layers; v above 1 with pp above 1), ep 1, 2 or 4 (divides the 4 "
    "experts), dp a multiple of ep, mbs 1, 2 or 4, schedule \"gpipe\", \"1f1b\", \"interleaved\" or "
    "\"zero_bubble\"";

TEST(VerifyLayout, WrongLayoutsAreToldWhatIsValid) {
  const std::pair<const char*, const char*> wrong[] = {
      {"pp=3", "pp x v is 3 x 1 stages for 2 layers"},
      {"pp=2,v=2", "pp x v is 2 x 2 stages for 2 layers"},
      {"v=2", "virtual_pipeline_model_parallel_size 2 needs pipeline_model_parallel_size above 1"},
      {"ep=3", "parallel.expert_model_parallel_size 3 does not divide model.n_routed_experts 4"},
      {"ep=2,dp=3", "dp 3 is not a multiple of ep 2"},
      {"mbs=3", "global_batch_size 4 is not a multiple of micro_batch_size 3"},
      {"pp=2,schedule=1f2b", "schedule is \"1f2b\", nearest is 1f1b"},
      {"pq=2", "\"pq\" is not a key, nearest is pp"},
      {"pp", "\"pp\" is no KEY=VALUE"},
      {"pp=two", "pp is \"two\", expected is a whole number from 1"},
      {"dp=0", "dp is \"0\", expected is a whole number from 1"},
      {"pp=1,pp=2", "pp is given twice"},
      {"dp=1025", "it has 1025 ranks, at most 1024 are allowed"},
      {"", "\"\" is no KEY=VALUE"},
  };
  for (const auto& [layout, why] : wrong) {
    const Outcome o = verify(std::string("pp=2;") + layout);
    EXPECT_EQ(o.status, 2) << layout;
    EXPECT_EQ(o.err, std::string("strata: --layouts \"") + layout + "\": " + why + kValid + "\n");
    EXPECT_EQ(o.out, "");
  }
  const Outcome none = Workplace().strata({"verify-layout", tiny_config()});
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.err, "strata: verify-layout: --layouts is required\n");
}

}  // namespace
}  // namespace strata::test
