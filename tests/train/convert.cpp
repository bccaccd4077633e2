// A vanilla model with other residual connections computes the same; a conversion that fails or is killed
// leaves nothing, or what was there.
#include "train/convert.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "checkpoint/manifest.h"
#include "support/model_folder.h"
#include "support/small_model.h"
#include "train/logit_check.h"
#include "train/weights.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;
using train::Conversion;
using train::ConvertOptions;

model::ModelConfig vanilla(bool is_mla = true, bool has_experts = true) {
  model::ModelConfig c = small_config({});
  if (!is_mla) {
    c.attention = model::Attention::Gqa;
    c.num_attention_heads = 4;
    c.num_key_value_heads = 2;
    c.head_dim = 6;
  }
  if (!has_experts) c.n_routed_experts = 0;
  return c;
}

std::string override_of(const residual::Config& config) { return "model.residual=" + config_json(config); }

// Logits of a whole pass with documents, at this rms_norm_eps.
std::vector<double> logits(const std::string& folder, double eps) {
  const train::ModelSource source = train::open_model(folder);
  model::ModelConfig config = source.config.model;
  config.rms_norm_eps = eps;
  ModelRun run;
  run.scale_norms = 0;
  run.prepare = [&](ParameterStore& store) { train::load_weights(store, source.weights); };
  return run_model(config, small_batch(config, 2, 23), run).logits;
}

class VanillaStart : public ::testing::TestWithParam<Variant> {};

TEST_P(VanillaStart, ComputesTheSame) {
  if (GetParam().config.type == residual::Type::Vanilla) return;
  for (const bool is_mla : {true, false})
    for (const bool has_experts : {true, false}) {
      const TempFolder place;
      write_model(place / "from", vanilla(is_mla, has_experts));
      const Conversion c = train::convert(
          {.from = place / "from", .to = place / "to", .overrides = {override_of(GetParam().config)}});
      EXPECT_LE(c.limit_difference.value(), train::kAllowedDifference);
      EXPECT_GT(c.difference, 0) << "at its own rms_norm_eps it differs a little";
      EXPECT_LE(c.difference, 1e-3);
      const std::vector<double> before = logits(place / "from", 1e-20), after = logits(place / "to", 1e-20);
      EXPECT_LE(train::largest_difference(after, before), 1e-9);
      EXPECT_GT(train::largest_difference(logits(place / "to", 1e-4), before), 1e-9) << "the comparison sees";
    }
}

INSTANTIATE_TEST_SUITE_P(Variants, VanillaStart, ::testing::ValuesIn(residual_variants()),
                         [](const auto& info) { return info.param.name; });

class Convert : public ::testing::Test {
 protected:
  Convert() { write_model(from, vanilla(true, false)); }
  ConvertOptions to_mhc() const {
    return {.from = from, .to = to, .overrides = {R"(model.residual={"type": "mhc", "streams": 2})"}};
  }
  // What the error says; empty: none was thrown.
  template <class E = InputError>
  std::string refusal(const ConvertOptions& o) const {
    try {
      train::convert(o);
    } catch (const E& e) {
      return e.what();
    }
    return "";
  }
  std::vector<std::string> names() const { return names_in(place.path()); }

  const TempFolder place;
  const std::string from = place / "from", to = place / "to";
};

TEST_F(Convert, InitialValuesAreOfTheSeed) {
  ConvertOptions o = to_mhc();
  train::convert(o);
  const checkpoint::SafetensorsFile first(to + "/model.safetensors");
  o.overwrite = true;
  o.overrides.push_back("run.seed=5");
  train::convert(o);
  const checkpoint::SafetensorsFile second(to + "/model.safetensors");
  const std::string phi = "model.layers.1.mlp_res.phi.weight", alpha = "model.layers.1.mlp_res.alpha_post";
  EXPECT_NE(first.floats(phi), second.floats(phi));
  EXPECT_EQ(second.floats(alpha), std::vector<double>{0});
  EXPECT_EQ(names(), (std::vector<std::string>{"from", "to"}));
}

TEST_F(Convert, RefusesWhatCannotBe) {
  ConvertOptions o = to_mhc();
  const auto says = [&](const std::string& sentence) {
    EXPECT_NE(refusal(o).find(sentence), std::string::npos) << refusal(o);
    EXPECT_FALSE(fs::exists(to));
    o = to_mhc();
  };
  o.overrides.push_back("model.rope_theta=5");
  says("command line: model.rope_theta 10000.0 -> 5.0: a conversion may change model.residual");
  o.overrides = {"model.residual.streams=2"};
  says("model.residual.streams is 2, but the key is allowed only when type is msar, mhc or attnres_mhc");
  o.from = place / "none";
  says("none: no such folder");
  o.to = place / "no/such";
  says("--to: no folder ");
  o.to = "..";
  says("is no folder's name");
  train::convert(to_mhc());
  o.from = to, o.to = place / "again";
  o.overrides = {R"(model.residual={"type": "attnres"})"};
  EXPECT_NE(refusal(o).find("is a mhc model, and only a vanilla one can be given other"), std::string::npos)
      << refusal(o);
  EXPECT_NE(refusal(to_mhc()).find("to is there already; --overwrite replaces it"), std::string::npos);
  o = to_mhc();
  o.overwrite = true;
  fs::create_directory(to + "/photos");
  EXPECT_NE(refusal(o).find("is not overwritten: photos in it is not of a converted model"),
            std::string::npos);
  fs::create_directory_symlink(to, place / "link");
  o.to = place / "link";
  EXPECT_NE(refusal(o).find("is a symbolic link"), std::string::npos);
  EXPECT_TRUE(fs::exists(to + "/model.safetensors"));
  o.to = from;
  EXPECT_NE(refusal(o).find("is what is converted"), std::string::npos) << refusal(o);
}

// Too small for rms_norm_eps 1e-20, and not finite: the logits differ, and nothing is left.
TEST_F(Convert, RefusesLogitsThatDiffer) {
  ConvertOptions o = to_mhc();
  o.overrides = {R"(model.residual={"type": "attnres"})"};
  write_model(from, vanilla(true, false), 1e-12);
  EXPECT_NE(refusal<Error>(o).find("nothing is written: the logits differ"), std::string::npos);
  write_model(from, vanilla(true, false), INFINITY);
  const std::string sentence = refusal<Error>(o);
  EXPECT_NE(sentence.find(" by nan of the largest at rms_norm_eps 1e-20, allowed is 1e-09"),
            std::string::npos)
      << sentence;
  EXPECT_EQ(names(), (std::vector<std::string>{"from"}));
}

TEST_F(Convert, WeightsThatDoNotFitAreListed) {
  checkpoint::SafetensorsWriter w;
  w.add("model.norm.weight", "F32", {1}, {1});
  w.add("extra", "F32", {1}, {1});
  w.write(from + "/model.safetensors");
  const std::string sentence = refusal(to_mhc());
  EXPECT_NE(sentence.find(
                "lacks weights of this model: lm_head.weight, model.embed_tokens.weight, "
                "model.layers.0.input_layernorm.weight and 39 more; it has weights this model does not "
                "have: extra; it has weights of other shapes: model.norm.weight is [1], the model has [20]"),
            std::string::npos)
      << sentence;
}

TEST_F(Convert, Float64StaysSo) {
  write_model(from, vanilla(true, false), 0.3, "F64");
  EXPECT_EQ(train::convert(to_mhc()).dtype, DType::Float64);
  const auto a = train::open_model(from).weights.all, b = train::open_model(to).weights.all;
  for (const auto& [name, w] : a) EXPECT_EQ(w.read(), b.at(name).read()) << name;
}

TEST_F(Convert, AFullDiskLeavesNothing) {
  ConvertOptions o = to_mhc();
  o.faults.free_bytes = 1000;
  EXPECT_NE(refusal<Error>(o).find("the disk has 1000 free"), std::string::npos);
  o.faults.free_bytes = -1;
  for (const std::int64_t bytes : {0, 500, 20000}) {
    o.faults.full_after_bytes = bytes;
    EXPECT_NE(refusal<Error>(o).find("No space left on device"), std::string::npos) << refusal<Error>(o);
    EXPECT_EQ(names(), (std::vector<std::string>{"from"}));
  }
}

// Whether the child was killed as told; false: it came to its end first.
bool is_killed(const ConvertOptions& options) {
  const pid_t child = fork();
  if (child == 0) {
    omp_set_num_threads(1);  // threads do not survive a fork
    train::convert(options);
    _exit(0);
  }
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  return WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL;
}

TEST_F(Convert, KilledAnywhereItLeavesAWholeFolderOrNone) {
  int calls = 0, whole = 0;
  for (bool killed = true; killed; ++calls) {
    ConvertOptions o = to_mhc();
    o.faults.kill_at_call = calls;
    killed = is_killed(o);
    if (!fs::exists(to)) continue;
    EXPECT_TRUE(checkpoint::verify(to).sound()) << "killed at call " << calls;
    ++whole;
    fs::remove_all(to);
  }
  EXPECT_GT(calls, 20);
  EXPECT_EQ(whole, 2) << "killed after the rename, and not killed";
  train::convert(to_mhc());
  EXPECT_EQ(names(), (std::vector<std::string>{"from", "to"})) << "what killed ones left is gone";
}

// Hidden folders of the user's are no leftovers, whatever they are called.
TEST_F(Convert, TakesOnlyItsOwnForLeftovers) {
  const std::vector<std::string> kept{".to.old-backup", ".to.tmp-notes"};
  for (const std::string& name : kept) fs::create_directory(place / name);
  fs::create_directory(place / ".to.tmp-4711");
  train::convert(to_mhc());
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(place / name)) << name;
  EXPECT_FALSE(fs::exists(place / ".to.tmp-4711"));
}

TEST_F(Convert, AFailedReplacementPutsBackWhatWasThere) {
  train::convert(to_mhc());
  const std::string before = read_file(to + "/manifest.json");
  ConvertOptions o = to_mhc();
  o.overwrite = true;
  o.overrides.push_back("run.seed=5");
  o.faults.before_call = [](std::string_view what, const std::string& path) {
    if (what == "rename" && path.find(".tmp-") != std::string::npos) throw Error("no");
  };
  EXPECT_EQ(refusal<Error>(o), "no");
  EXPECT_EQ(names(), (std::vector<std::string>{"from", "to"}));
  EXPECT_EQ(read_file(to + "/manifest.json"), before);
}

TEST_F(Convert, KilledWhileReplacingItLosesNothing) {
  train::convert(to_mhc());
  const std::string before = read_file(to + "/manifest.json");
  ConvertOptions o = to_mhc();
  o.overwrite = true;
  o.overrides.push_back("run.seed=5");
  int fresh = 0;
  bool killed = true;
  for (int calls = 0; killed; ++calls) {
    o.faults.kill_at_call = calls;
    killed = is_killed(o);
    ConvertOptions next = to_mhc();  // refused, but the next to come puts things right first
    EXPECT_NE(refusal(next).find("is there already"), std::string::npos) << "killed at call " << calls;
    EXPECT_TRUE(checkpoint::verify(to).sound());
    if (read_file(to + "/manifest.json") != before) ++fresh;
    EXPECT_EQ(names(), (std::vector<std::string>{"from", "to"}));
  }
  EXPECT_GT(fresh, 3);
}

}  // namespace
}  // namespace strata::test
