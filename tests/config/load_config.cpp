// Files, overrides, origins, and the way back to JSON.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "config/sample.h"

namespace strata {
namespace {

using residual::Type;
using train::RunConfig;

std::string origin_of(const std::vector<ValueOrigin>& origins, const std::string& path) {
  const auto it = std::find_if(origins.begin(), origins.end(), [&](const auto& o) { return o.path == path; });
  return it == origins.end() ? "none" : std::string(name_of(it->origin));
}

std::string file_error(const std::string& file) {
  RunConfig config;
  try {
    load_config(config, file);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(LoadConfig, ReadsValues) {
  const RunConfig c = sample();
  EXPECT_EQ(c.run.name, "sample");
  EXPECT_EQ(c.run.folder(), "runs/sample");
  EXPECT_EQ(c.model.vocab_size, 300);
  EXPECT_EQ(c.model.rms_norm_eps, 1e-6);
  EXPECT_EQ(c.model.residual.type, Type::Msar);
  EXPECT_EQ(c.model.residual.num_blocks, 3);
  EXPECT_EQ(c.model.q_lora_rank, std::nullopt);
  EXPECT_EQ(c.lr_schedule.lr_decay_style, optim::LrDecayStyle::Wsd);
  EXPECT_EQ(c.optimizer.lr, 0.003);
  EXPECT_EQ(c.optimizer.beta2, 0.95);
}

TEST(LoadConfig, TakesIntegersForNumbersAndNullForUnset) {
  RunConfig c;
  load_config_text(c, edited("\"lr\": 0.003", "\"lr\": 1"), "c.json");
  EXPECT_EQ(c.optimizer.lr, 1.0);
  load_config_text(c, edited("\"num_blocks\": 3", "\"num_blocks\": null"), "c.json");
  EXPECT_EQ(c.model.residual.num_blocks, std::nullopt);
}

TEST(LoadConfig, OverridesTakeJsonOrBareStrings) {
  const RunConfig c =
      sample({"run.name=other", "run.output_dir=2024", "model.residual={\"type\": \"mhc\"}",
              "optimizer.lr=1e-2", "recompute.granularity=selective", "recompute.modules=[\"moe_act\"]",
              "data.validation={\"web\": {\"path\": \"v\"}}", "training.global_batch_size=4",
              "training.global_batch_size=6"});
  EXPECT_EQ(c.run.name, "other");
  EXPECT_EQ(c.run.folder(), "2024");
  EXPECT_EQ(c.model.residual.type, Type::Mhc);
  EXPECT_EQ(c.optimizer.lr, 1e-2);
  EXPECT_TRUE(c.recompute.drops(train::RecomputeModule::MoeAct));
  EXPECT_FALSE(c.recompute.drops(train::RecomputeModule::LayerNorm));
  EXPECT_EQ(c.data.validation.at("web").path, "v");
  EXPECT_EQ(c.training.global_batch_size, 6);
}

TEST(LoadConfig, NullOnTheCommandLineTakesTheFilesValueAway) {
  const RunConfig c = sample({"optimizer.lr=null", "lr_schedule=null", "training.train_iters=null",
                              "model.residual.num_blocks=null", "model.residual.type=vanilla"});
  EXPECT_EQ(c.optimizer.lr, 3e-4);
  EXPECT_EQ(c.lr_schedule, optim::LrScheduleSection{});
  EXPECT_EQ(c.training.iterations(), 1000);
  EXPECT_EQ(c.model.residual.type, Type::Vanilla);
}

TEST(LoadConfig, NamesTheOriginOfEachValueThatDoesSomething) {
  RunConfig c;
  const auto origins = load_config_text(c, kSample, "c.json", {"run.seed=7", "model.residual.streams=3"});
  EXPECT_EQ(origin_of(origins, "run.name"), "file");
  EXPECT_EQ(origin_of(origins, "run.seed"), "command line");
  EXPECT_EQ(origin_of(origins, "run.output_dir"), "default");
  EXPECT_EQ(origin_of(origins, "model.residual.streams"), "command line");
  EXPECT_EQ(origin_of(origins, "model.residual.kernel_sizes"), "default");
  EXPECT_EQ(origin_of(origins, "model.residual.sinkhorn_iters"), "none");
  EXPECT_EQ(origin_of(origins, "optimizer.momentum"), "none");
  EXPECT_EQ(origins_json({{"a.b", Origin::File}, {"a.c", Origin::CommandLine}}),
            "{\n  \"a.b\": \"file\",\n  \"a.c\": \"command line\"\n}\n");
  const auto path_less = [](const auto& a, const auto& b) { return a.path < b.path; };
  auto sorted = origins;
  std::sort(sorted.begin(), sorted.end(), path_less);
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end(),
                               [](const auto& a, const auto& b) { return a.path == b.path; }),
            sorted.end());
}

TEST(LoadConfig, ResolvedConfigLoadsBackEqual) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"model.residual={\"type\": \"vanilla\"}"},
      {"model.residual={\"type\": \"attnres\"}", "model.num_nextn_predict_layers=1"},
      {"model.residual={\"type\": \"msar\", \"streams\": 2, \"kernel_sizes\": [7], \"fusion\": \"mean\"}"},
      {"model.residual={\"type\": \"msar\", \"expansion\": \"none\"}", "model.q_lora_rank=12"},
      {"model.residual={\"type\": \"attnres_mhc\", \"num_blocks\": 4, \"readout\": \"sum\"}"},
      {"model.n_routed_experts=0", "model.moe_intermediate_size=null", "model.num_experts_per_tok=null"},
      {"model.first_k_dense_replace=0", "model.intermediate_size=null"},
      {"optimizer={\"type\": \"sgd\", \"momentum\": 0.9, \"lr\": 0.30000000000000004}"},
      {"lr_schedule={\"lr_decay_style\": \"step\", \"lr_step_iters\": [3, 9]}",
       "run.name=\"a \\\"b\\\" \\u00e9\""},
      {"recompute={\"granularity\": \"selective\", \"modules\": [\"core_attn\", \"layernorm\"]}"},
      {"data.train=[{\"path\": \"a\", \"weight\": 0.3}, {\"path\": \"b\", \"max_epochs\": 2}]",
       "data.validation={\"web\": {\"path\": \"w\"}, \"code\": {\"path\": \"c\"}}"},
      {"data=null"},
      {"training={\"train_tokens\": 1000000}", "run.seed=9223372036854775807", "model.rms_norm_eps=1e-20"},
  };
  for (const auto& overrides : variants) {
    const RunConfig c = sample(overrides);
    const std::string text = config_json(c);
    RunConfig again;
    load_config_text(again, text, "resolved.json");
    EXPECT_EQ(again, c) << text;
    EXPECT_EQ(config_json(again), text);
  }
}

TEST(LoadConfig, EveryFieldTakesPartInEquality) {
  const RunConfig c = sample();
  EXPECT_NE(sample({"model.residual.key_norm_eps=1e-5"}), c);
  EXPECT_NE(sample({"logging.jsonl=x"}), c);
  EXPECT_NE(sample({"model.rope_theta=2"}), c);
}

TEST(LoadConfig, ShippedConfigsLoad) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(file_error(entry.path().string()), "");
    ++files;
  }
  EXPECT_GE(files, 3);
}

TEST(LoadConfig, ModelAloneIsEnough) {
  RunConfig c;
  load_config_text(c, R"({"model": {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "attention": "gqa", "intermediate_size": 64,
    "num_nextn_predict_layers": 0, "mtp_loss_coef": 0.3, "residual": {"type": "vanilla"}}})",
                   "model.json");
  EXPECT_EQ(c.model.kv_heads(), 2);
  EXPECT_EQ(c.training, train::TrainingSection{});
}

class ConfigFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("strata_config_" + std::to_string(testing::UnitTest::GetInstance()->random_seed()) + "_" +
               std::to_string(reinterpret_cast<std::uintptr_t>(this)));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

TEST_F(ConfigFiles, LoadsWhatIsWritten) {
  RunConfig c;
  load_config(c, write("c.json", kSample), {"run.seed=8"});
  EXPECT_EQ(c.run.seed, 8);
}

TEST_F(ConfigFiles, NamesTheFileThatIsNotOne) {
  const std::string folder = folder_.string(), empty = write("empty.json", ""),
                    big = write("big.json", std::string(17 << 20, ' '));
  EXPECT_EQ(file_error(folder + "/none.json"), folder + "/none.json: no such file");
  EXPECT_EQ(file_error(folder), folder + ": is a folder, expected a file");
  EXPECT_EQ(file_error(empty), empty + ": is empty, expected a JSON object");
  EXPECT_EQ(file_error(big), big + ": is larger than 16 MiB, expected a config file");
}

}  // namespace
}  // namespace strata
