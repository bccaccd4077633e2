// What configs say beyond their keys.
#include "config/sample.h"

namespace strata {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string train_error(const std::vector<std::string>& overrides) {
  try {
    train::check_trainable(sample(overrides));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(DerivedValues, BlocksOfSubLayers) {
  residual::Config c{.type = residual::Type::AttnRes};
  EXPECT_EQ(c.block_size(8), 1);
  EXPECT_EQ(c.block_count(8), 8);
  c.num_blocks = 3;
  EXPECT_EQ(c.block_size(8), 3);
  EXPECT_EQ(c.block_count(8), 3);
  c.num_blocks = 5;
  EXPECT_EQ(c.block_size(8), 2);
  EXPECT_EQ(c.block_count(8), 4);
  c.num_blocks = 100;
  EXPECT_EQ(c.block_size(8), 1);
  EXPECT_EQ(c.block_count(8), 8);
}

TEST(DerivedValues, KernelSizesByStreams) {
  const auto kernels = [](std::int64_t streams) {
    return residual::Config{.type = residual::Type::Msar, .streams = streams}.kernels();
  };
  EXPECT_EQ(kernels(1), Sizes{});
  EXPECT_EQ(kernels(2), Sizes{4});
  EXPECT_EQ(kernels(3), (Sizes{4, 8}));
  EXPECT_EQ(kernels(4), (Sizes{4, 8, 12}));
  EXPECT_EQ(kernels(8), (Sizes{2, 4, 6, 8, 10, 12, 16}));
  EXPECT_EQ(sample({"model.residual.streams=5", "model.residual.kernel_sizes=[1, 2, 3, 4]"})
                .model.residual.kernels(),
            (Sizes{1, 2, 3, 4}));
  EXPECT_EQ(sample({"model.residual.expansion=none"}).model.residual.kernels(), Sizes{});
}

TEST(DerivedValues, LayersAndHeads) {
  const model::ModelConfig c = sample({"model.num_nextn_predict_layers=1"}).model;
  EXPECT_EQ(c.sublayers(), 8);
  EXPECT_FALSE(c.is_moe_layer(0));
  EXPECT_TRUE(c.is_moe_layer(1));
  EXPECT_TRUE(c.is_moe_layer(4));
  EXPECT_EQ(c.moe_layers(), 4);
  EXPECT_EQ(c.qk_head_dim(), 12);
  EXPECT_EQ(c.value_head_dim(), 8);
  EXPECT_EQ(c.kv_heads(), 4);
  const model::ModelConfig all_dense = sample({"model.first_k_dense_replace=4"}).model;
  EXPECT_FALSE(all_dense.is_moe_layer(3));
  EXPECT_EQ(all_dense.moe_layers(), 0);
}

TEST(DerivedValues, GroupedQueryHeads) {
  const model::ModelConfig c{.hidden_size = 32, .num_attention_heads = 4, .attention = model::Attention::Gqa};
  EXPECT_EQ(c.qk_head_dim(), 8);
  EXPECT_EQ(c.value_head_dim(), 8);
  EXPECT_EQ(c.kv_heads(), 4);
}

TEST(DerivedValues, GroupedQueryRules) {
  const auto error = [](std::int64_t width, std::int64_t heads, std::optional<std::int64_t> kv_heads,
                        std::optional<std::int64_t> head_dim) -> std::string {
    model::ModelConfig c{.hidden_size = width, .num_hidden_layers = 1, .num_attention_heads = heads};
    c.attention = model::Attention::Gqa;
    c.num_key_value_heads = kv_heads;
    c.head_dim = head_dim;
    try {
      c.validate();
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error(32, 4, 2, {}), "");
  EXPECT_EQ(error(32, 4, 3, {}), "num_key_value_heads 3 does not divide num_attention_heads 4");
  EXPECT_EQ(error(30, 4, {}, {}),
            "head_dim is required, because num_attention_heads 4 does not divide hidden_size 30");
  EXPECT_EQ(error(30, 4, {}, 8), "");
  EXPECT_EQ(error(32, 4, {}, 7), "head_dim 7 is odd, but rotation works on pairs");
  EXPECT_EQ(error(12, 4, {}, {}),
            "head_dim 3 (hidden_size / num_attention_heads) is odd, but rotation works on pairs");
}

TEST(DerivedValues, LengthOfARun) {
  EXPECT_EQ(sample().training.iterations(), 100);
  const auto tokens = [](std::int64_t n) {
    return train::TrainingSection{.seq_length = 64, .global_batch_size = 8, .train_tokens = n}.iterations();
  };
  EXPECT_EQ(tokens(1), 1);
  EXPECT_EQ(tokens(512), 1);
  EXPECT_EQ(tokens(513), 2);
  EXPECT_EQ(train::TrainingSection{.micro_batch_size = 3}.batch_size(), 3);
}

TEST(DerivedValues, Schedule) {
  const optim::LrScheduleSection unset;
  EXPECT_EQ(unset.decay_iters(200), 200);
  EXPECT_EQ(unset.wsd_decay_iters(200), 20);
  EXPECT_EQ(unset.wsd_decay_iters(1), 1);
  EXPECT_EQ(unset.step_iters(200), (Sizes{160, 180}));
  const optim::LrScheduleSection given{
      .lr_decay_iters = 50, .lr_wsd_decay_iters = 7, .lr_step_iters = Sizes{3}};
  EXPECT_EQ(given.decay_iters(200), 50);
  EXPECT_EQ(given.wsd_decay_iters(200), 7);
  EXPECT_EQ(given.step_iters(200), Sizes{3});
}

TEST(DerivedValues, Precision) {
  EXPECT_EQ(sample().precision.dtype(), DType::Float32);
  EXPECT_EQ(sample({"precision.compute=float64"}).precision.dtype(), DType::Float64);
  EXPECT_EQ(sample({"precision.compute=bfloat16"}).precision.dtype(), DType::BFloat16);
}

TEST(Trainable, NeedsDataAndAScheduleThatFits) {
  EXPECT_EQ(train_error({}), "");
  EXPECT_EQ(train_error({"data.train=null"}),
            R"(data.train is required: a list of token files, as in [{"path": "data/corpus"}])");
  EXPECT_EQ(train_error({"model.vocab_size=256"}),
            "model.vocab_size 256 is below the 257 ids of data.tokenizer byte");
  EXPECT_EQ(train_error({"training.eval_interval=5"}),
            "data.validation is required with training.eval_interval 5: token files by name, as in "
            R"({"held_out": {"path": "data/held_out"}})");
  EXPECT_EQ(train_error({"training.train_iters=9"}),
            "lr_schedule.lr_warmup_iters 10 is above the 9 steps of the schedule");
  EXPECT_EQ(train_error({"training.train_iters=29"}),
            "lr_schedule.lr_wsd_decay_iters 20 and lr_warmup_iters 10 together exceed the 29 steps of the "
            "schedule");
  EXPECT_EQ(train_error({"training.train_iters=30"}), "");
  EXPECT_EQ(train_error({"profile.steps=[100, 200]"}), "");
  EXPECT_EQ(train_error({"profile.steps=[101, 200]"}),
            "profile.steps begins with step 101, behind the 100 steps of the run");
  EXPECT_EQ(train_error({"training.train_iters=9", "lr_schedule={\"lr_warmup_iters\": 10}"}), "");
}

}  // namespace
}  // namespace strata
