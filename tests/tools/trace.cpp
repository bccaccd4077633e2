// `strata trace` on a reference model: the file it writes, the comparison it prints, what it refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/safetensors.h"
#include "strata_binary.h"

namespace strata::test {
namespace {

using checkpoint::SafetensorsFile;
using checkpoint::SafetensorsWriter;

class Trace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kCase + "/expected.safetensors")) GTEST_SKIP() << kCase << " is not there";
    for (const char* file : {"config.json", "model.safetensors", "batch.safetensors", "expected.safetensors"})
      std::filesystem::create_symlink(kCase + "/" + file, place.path(file));
  }

  Outcome trace(std::vector<std::string> more) const {
    std::vector<std::string> words{
        "trace", "--config", "config.json", "--weights", "model.safetensors", "--batch", "batch.safetensors"};
    // What is given later replaces what stands here.
    for (std::size_t i = 1; i + 1 < words.size(); i += 2)
      if (const auto at = std::find(more.begin(), more.end(), words[i]); at != more.end()) {
        words[i + 1] = at[1];
        more.erase(at, at + 2);
      }
    words.insert(words.end(), more.begin(), more.end());
    return place.strata(words);
  }

  const std::string kCase = STRATA_TEST_FIXTURES "/golden/q_lora_and_mtp";
  Workplace place;
};

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n'), start = text.rfind('\n', end);
  return text.substr(start + 1, end - start);
}

TEST_F(Trace, AgreesWithTheReferenceAndSaysWhichOptimizerItTook) {
  for (const std::string precision : {"float64", "float32"}) {
    const Outcome o = trace(
        {"--compare", "expected.safetensors", "--steps", "5", "--set", "precision.compute=" + precision});
    EXPECT_EQ(o.status, 0) << o.out;
    EXPECT_EQ(without_times(o.err),
              "info: optimizer, as expected.safetensors says: lr 0.003, weight_decay 0.1, clip_grad 1.0, "
              "beta1 0.9, "
              "beta2 0.95, eps 1e-6\n");
    const std::string last = last_line(o.out);
    EXPECT_NE(last.find(" tensors compared, worst "), std::string::npos) << last;
    EXPECT_NE(last.find(", 0 beyond tolerance"), std::string::npos) << last;
    EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 12) << "title, ten tensors, summary";
  }
}

TEST_F(Trace, AgreesUnderEveryWayOfComputingTheSame) {
  for (const char* setting :
       {"training.micro_batch_size=2", "recompute.granularity=full", "recompute.granularity=selective",
        "backend.threads=1", "training.train_iters=2"}) {
    const Outcome o = trace({"--compare", "expected.safetensors", "--steps", "5", "--set",
                             "precision.compute=float64", "--set", setting});
    EXPECT_EQ(o.status, 0) << setting << "\n" << o.out;
  }
}

TEST_F(Trace, WhatTheUserSaysGoesBeforeWhatTheReferenceSays) {
  const Outcome o = trace({"--compare", "expected.safetensors", "--steps", "5", "--set", "optimizer.lr=0.001",
                           "--set", "optimizer.eps=1e-6"});
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(without_times(o.err),
            "info: optimizer, as expected.safetensors says: weight_decay 0.1, clip_grad 1.0, beta1 0.9, "
            "beta2 0.95\n");
  EXPECT_NE(o.out.find("  beyond\n"), std::string::npos) << o.out;
}

TEST_F(Trace, ToleranceHoldsForAllTensors) {
  const std::vector<std::string> words{"--compare", "expected.safetensors", "--set",
                                       "precision.compute=float64", "--tolerance"};
  const auto with = [&](const char* tolerance) {
    auto all = words;
    all.push_back(tolerance);
    return trace(all);
  };
  EXPECT_EQ(with("1e-9").status, 0);
  const Outcome tight = with("1e-17");
  EXPECT_EQ(tight.status, 1);
  EXPECT_EQ(last_line(tight.out).find(", 0 beyond"), std::string::npos) << tight.out;
  EXPECT_EQ(with("0").status, 1);
}

TEST_F(Trace, WritesEverythingTheReferenceHolds) {
  const SafetensorsFile expected(place.path("expected.safetensors"));
  for (const auto& [precision, dtype] : {std::pair{"float64", "F64"}, {"float32", "F32"}}) {
    const Outcome o = trace(
        {"--out", "out.safetensors", "--steps", "5", "--set", std::string("precision.compute=") + precision});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(o.out, "");
    const SafetensorsFile out(place.path("out.safetensors"));
    for (const auto& [name, t] : expected.tensors()) {
      ASSERT_TRUE(out.has(name)) << name;
      EXPECT_EQ(out.at(name).shape, t.shape) << name;
    }
    for (const auto& [name, t] : out.tensors()) EXPECT_EQ(t.dtype, dtype) << name;
    for (const char* name : {"loss", "lm_loss", "aux_loss", "mtp_loss"})
      EXPECT_EQ(out.at(name).shape, (std::vector<std::int64_t>{1})) << name;
  }
}

TEST_F(Trace, WithoutStepsNothingIsTrained) {
  ASSERT_EQ(trace({"--out", "out.safetensors", "--compare", "expected.safetensors"}).status, 0);
  const SafetensorsFile out(place.path("out.safetensors"));
  for (const auto& [name, t] : out.tensors()) EXPECT_FALSE(name.starts_with("train")) << name;
}

TEST_F(Trace, NamesWhatTheOutputLacks) {
  SafetensorsWriter reference;
  reference.add("lm_loss", "F32", {1}, {5});
  reference.add("nonsense", "F32", {1}, {0});
  reference.add("token_loss", "F32", {2}, {0, 0});
  reference.write(place.path("reference.safetensors"));
  const Outcome o = trace({"--compare", "reference.safetensors", "--tolerance", "10"});
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.out.find("nonsense    missing from the output"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("token_loss  of another shape"), std::string::npos) << o.out;
  EXPECT_EQ(last_line(o.out),
            "3 tensors compared, worst missing from the output at nonsense, 2 beyond tolerance");
}

TEST_F(Trace, RefusesBatchesThatDoNotFit) {
  const auto refusal = [&](const std::vector<std::int64_t>& shape, std::int64_t id, std::int64_t label,
                           const std::string& message) {
    SafetensorsWriter batch;
    const std::size_t n = shape.size() == 2 ? std::size_t(shape[0] * shape[1]) : std::size_t(shape[0]);
    std::vector<std::int64_t> ids(n, 1), labels(n, 2);
    ids.back() = id;
    labels.back() = label;
    batch.add_integers("input_ids", shape, ids);
    if (label != 0) batch.add_integers("labels", shape, labels);
    batch.write(place.path("b.safetensors"));
    const Outcome o = trace({"--batch", "b.safetensors", "--out", "o"});
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.err, "strata: " + message + "\n");
  };
  refusal({4}, 1, 2, "b.safetensors: input_ids is [4]; [sequences, tokens] is needed");
  refusal({1, 4}, 1, 0, "b.safetensors has no tensor \"labels\"");
  refusal({2, 4}, -1, 2, "b.safetensors: input_ids[1][3] is -1; token ids are 0 to 60 (model.vocab_size)");
  refusal({2, 4}, 1, 61,
          "b.safetensors: labels[1][3] is 61; labels are 0 to 60 (model.vocab_size), or -100 for a token "
          "that is not counted");
}

TEST_F(Trace, RefusesWeightsOfAnotherModel) {
  SafetensorsWriter weights;
  weights.add("model.norm.weight", "F32", {2}, {1, 1});
  weights.write(place.path("w.safetensors"));
  const Outcome missing = trace({"--weights", "w.safetensors", "--out", "o"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_EQ(missing.err.find("strata: w.safetensors lacks weights of this model: lm_head.weight, "), 0u)
      << missing.err;

  const SafetensorsFile model(place.path("model.safetensors"));
  const auto copy = [&](const std::string& changed, std::vector<std::int64_t> shape) {
    SafetensorsWriter w;
    for (const auto& [name, t] : model.tensors())
      w.add(name, "F32", name == changed ? shape : t.shape, model.floats(name));
    if (changed == "extra") w.add("extra", "F32", shape, {1, 2});
    w.write(place.path("w.safetensors"));
    return trace({"--weights", "w.safetensors", "--out", "o"}).err;
  };
  EXPECT_EQ(copy("extra", {2}), "strata: w.safetensors has weights this model does not have: extra\n");
  EXPECT_EQ(copy("model.norm.weight", {1, 32}),
            "strata: w.safetensors has weights of other shapes: model.norm.weight is [1, 32], the model has "
            "[32]\n");
}

TEST_F(Trace, RefusesAReferenceWithBrokenMetadata) {
  SafetensorsWriter reference;
  reference.add("lm_loss", "F32", {1}, {5});
  reference.metadata("lr", "0.1x");
  reference.write(place.path("reference.safetensors"));
  const Outcome o = trace({"--compare", "reference.safetensors"});
  EXPECT_EQ(o.status, 2);
  EXPECT_EQ(o.err, "strata: reference.safetensors: metadata lr is \"0.1x\", expected a number\n");
}

}  // namespace
}  // namespace strata::test
