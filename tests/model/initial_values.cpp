// Initial value, weight decay and precision of every weight, looked up by its name in the model's
// specification: matrices N(0, initializer_range^2), norms 1, queries 0, convolutions a delta at lag 0 with
// noise, mixing scalars 0.01, mHC biases +3 and -3. All a function of seed, name and element alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "optim/optimizer.h"
#include "support/small_model.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

struct Expected {
  double std = 0;
  std::function<double(std::int64_t)> base = [](std::int64_t) { return 0.0; };
  bool decays = false, full = true;  // full: float32 also when computing in bfloat16
};

Expected constant(double value) {
  return {.base = [value](std::int64_t) { return value; }};
}

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// l of "model.layers.{i}.attn_res.*" or "model.layers.{i}.mlp_res.*", counted from 1.
std::int64_t sublayer(const std::string& name) {
  return 2 * std::stoll(name.substr(std::string("model.layers.").size())) + (has(name, ".attn_res.") ? 1 : 2);
}

Expected expected_bias(const std::string& name, std::int64_t streams) {
  const auto three = [](bool positive) { return positive ? 3.0 : -3.0; };
  if (name.ends_with(".bias_pre")) {
    const std::int64_t favoured = sublayer(name) % streams;
    return {.base = [=](std::int64_t i) { return three(i == favoured); }};
  }
  if (name.ends_with(".bias_res"))
    return {.base = [=](std::int64_t i) { return three(i / streams == i % streams); }};
  return constant(0);
}

Expected expected(const std::string& name, const Dims& dims, const model::ModelConfig& config) {
  if (name.ends_with("norm.weight")) return constant(1);
  if (name.ends_with(".query")) return constant(0);
  if (name.ends_with(".gate.scale") || has(name, ".alpha")) return constant(0.01);
  if (has(name, "bias")) return expected_bias(name, config.residual.streams);
  if (has(name, ".conv.")) {
    const std::int64_t taps = dims[1];
    return {config.residual.conv_init_std, [taps](std::int64_t i) { return i % taps == 0 ? 1.0 : 0.0; }};
  }
  Expected matrix{.std = config.initializer_range, .decays = true, .full = false};
  if (name.ends_with(".gate.weight") || name.ends_with(".phi.weight"))
    matrix.full = true;
  else
    EXPECT_TRUE(has(name, "_proj") || has(name, "embed_tokens") || has(name, "lm_head")) << name;
  return matrix;
}

struct InitialModel {
  std::string name;
  std::size_t residual_weights;  // of six sub-layers
  std::function<void(model::ModelConfig&)> change;
  friend void PrintTo(const InitialModel& m, std::ostream* out) { *out << m.name; }

  // Three layers, one of them dense; matrices of 20 000 elements and more.
  model::ModelConfig config() const {
    model::ModelConfig c;
    c.vocab_size = 150, c.hidden_size = 160, c.num_hidden_layers = 3, c.num_attention_heads = 4;
    c.kv_lora_rank = 112, c.qk_nope_head_dim = 24, c.qk_rope_head_dim = 16, c.v_head_dim = 32;
    c.intermediate_size = 130, c.moe_intermediate_size = 43, c.n_routed_experts = 3, c.n_shared_experts = 1;
    c.num_experts_per_tok = 2, c.first_k_dense_replace = 1;
    change(c);
    c.validate();
    return c;
  }
};

void use(model::ModelConfig& c, residual::Type type, std::optional<std::int64_t> blocks,
         std::int64_t streams) {
  c.residual.type = type, c.residual.num_blocks = blocks, c.residual.streams = streams;
}

std::vector<InitialModel> initial_models() {
  using residual::Type;
  return {{"vanilla_tied_q_lora", 0, [](auto& c) { c.tie_word_embeddings = true, c.q_lora_rank = 130; }},
          {"attnres_gqa", 12,
           [](auto& c) {
             use(c, Type::AttnRes, 3, 4);
             c.attention = model::Attention::Gqa, c.num_key_value_heads = 2;
           }},
          {"attnres_full_wide_init", 12,
           [](auto& c) { use(c, Type::AttnRes, {}, 4), c.initializer_range = 0.05; }},
          {"msar_block", 38, [](auto& c) { use(c, Type::Msar, 3, 3); }},
          {"msar_full_mtp", 51, [](auto& c) { use(c, Type::Msar, {}, 4), c.num_nextn_predict_layers = 1; }},
          {"msar_exact_delta", 33,
           [](auto& c) {
             use(c, Type::Msar, 2, 2);
             c.residual.conv_init_std = 0, c.residual.kernel_sizes = std::vector<std::int64_t>{5};
           }},
          {"mhc_four", 45, [](auto& c) { use(c, Type::Mhc, {}, 4); }},
          {"mhc_three_mean", 42,
           [](auto& c) { use(c, Type::Mhc, {}, 3), c.residual.readout = residual::Readout::Mean; }},
          {"attnres_mhc_mtp", 59,
           [](auto& c) { use(c, Type::AttnResMhc, 3, 4), c.num_nextn_predict_layers = 1; }}};
}

// A model's weights as they start.
struct Start {
  Start(const model::ModelConfig& config, std::uint64_t seed, DType compute = DType::Float64,
        std::optional<model::StageRange> range = {})
      : device(device_options()),
        stage(config, range.value_or(model::StageRange{0, int(config.num_hidden_layers), true, true}),
              store) {
    store.allocate(device, compute);
    store.initialize(seed);
  }
  std::vector<double> operator[](const std::string& name) {
    return to_host(device, store.by_name().at(name).master(), "test");
  }

  device::Device device;
  ParameterStore store;
  model::Stage stage;
};

// Sums over what should be standard normal numbers.
struct Moments {
  double count = 0, sum = 0, squares = 0, fourths = 0;

  void add(double z) { ++count, sum += z, squares += z * z, fourths += z * z * z * z; }
  void add(const Moments& m) { count += m.count, sum += m.sum, squares += m.squares, fourths += m.fourths; }
  // Five standard errors each: 2.5 % of the standard deviation at 20 000 elements.
  void check(const std::string& what) const {
    const double mean = sum / count, deviation = std::sqrt(squares / count - mean * mean);
    EXPECT_LE(std::abs(mean), 5 / std::sqrt(count)) << what << ": mean / std of " << count;
    EXPECT_LE(std::abs(deviation - 1), 5 / std::sqrt(2 * count)) << what << ": " << deviation << " times std";
    if (count < 1000) return;
    const double kurtosis = fourths / count / std::pow(squares / count, 2);
    EXPECT_LE(std::abs(kurtosis - 3), 5 * std::sqrt(24 / count)) << what << ": kurtosis " << kurtosis;
  }
};

// The name without its numbers: what the same weights of all layers share.
std::string kind(std::string name) {
  name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }),
             name.end());
  return name;
}

class InitialValues : public ::testing::TestWithParam<InitialModel> {
 protected:
  const model::ModelConfig config = GetParam().config();
  Expected rule(const std::string& name, const ParameterStore::Found& found) const {
    return expected(name, found.slice.dims, config);
  }
};

class RandomValues : public InitialValues {};

TEST_P(InitialValues, OfEveryWeight) {
  Start start(config, 3);
  std::map<std::string, Moments> kinds;
  std::size_t residual_weights = 0;
  for (const auto& [name, found] : start.store.by_name()) {
    residual_weights += has(name, "_res.") || has(name, "residual_sources");
    const Expected want = rule(name, found);
    const std::vector<double> values = start[name];
    Moments moments;
    double off = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double rest = values[i] - want.base(std::int64_t(i));
      if (want.std > 0) moments.add(rest / want.std);
      off = std::max(off, std::abs(rest));
    }
    if (want.std == 0) {
      EXPECT_EQ(off, 0) << name;
    } else {
      moments.check(name);
      kinds[kind(name)].add(moments);
    }
  }
  for (const auto& [name, moments] : kinds) moments.check(name);
  EXPECT_EQ(residual_weights, GetParam().residual_weights);
  EXPECT_EQ(start.store.by_name().count("lm_head.weight"), config.tie_word_embeddings ? 0u : 1u);
}

TEST_P(RandomValues, NoTwoRandomElementsAreAlike) {
  Start start(config, 3);
  std::map<double, std::vector<double>> by_std;
  for (const auto& [name, found] : start.store.by_name()) {
    const Expected want = rule(name, found);
    if (want.std == 0) continue;
    const std::vector<double> values = start[name];
    for (std::size_t i = 0; i < values.size(); ++i)
      by_std[want.std].push_back(std::abs(values[i] - want.base(std::int64_t(i))));
  }
  for (auto& [std, all] : by_std) {
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "of std " << std;
  }
}

TEST_P(InitialValues, OnlyMatricesDecay) {
  Start start(config, 3);
  for (const auto& [name, found] : start.store.by_name())
    start.store.set(name, std::vector<double>(found.slice.dims.numel(), 1.0));
  optim::Optimizer({.weight_decay = 0.5}, start.device, start.store).step(0.5, 1);
  for (const auto& [name, found] : start.store.by_name()) {
    const double want = rule(name, found).decays ? 0.75 : 1;
    EXPECT_EQ(start[name], std::vector<double>(found.slice.dims.numel(), want)) << name;
  }
}

TEST_P(InitialValues, RoundedOnlyWhereKernelsReadBFloat16) {
  Start exact(config, 3), start(config, 3, DType::BFloat16);
  for (const auto& [name, found] : start.store.by_name()) {
    std::vector<double> want = exact[name];
    for (double& v : want) v = float(v);
    EXPECT_EQ(start[name], want) << name;
    if (!found.parameter) continue;
    const Tensor& value = found.parameter->value;
    EXPECT_EQ(name_of(value.dtype()), rule(name, found).full ? "float32" : "bfloat16") << name;
    if (value.dtype() == DType::BFloat16)
      for (double& v : want) v = float(bfloat16(float(v)));
    EXPECT_EQ(to_host(start.device, value.at(found.slice.offset, found.slice.dims), "test"), want) << name;
  }
}

TEST_P(RandomValues, OtherSeedsGiveOtherNumbers) {
  Start start(config, 3);
  for (const std::uint64_t seed : {std::uint64_t(4), std::uint64_t(3) + (std::uint64_t(1) << 32)}) {
    Start other(config, seed);
    for (const auto& [name, found] : start.store.by_name()) {
      const std::vector<double> a = start[name], b = other[name];
      if (rule(name, found).std == 0)
        EXPECT_EQ(a, b) << name;
      else
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), std::not_equal_to<>())) << name;
    }
  }
}

// Wherever the stage is cut.
TEST_P(RandomValues, OfALayerAloneAreTheWholeModels) {
  Start whole(config, 3);
  for (const model::StageRange range :
       {model::StageRange{0, 1, true, false}, {1, 2, false, false}, {2, 3, false, true}}) {
    Start part(config, 3, DType::Float64, range);
    for (const auto& [name, found] : part.store.by_name()) EXPECT_EQ(part[name], whole[name]) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, InitialValues, ::testing::ValuesIn(initial_models()),
                         [](const auto& info) { return info.param.name; });

// Every kind of random weight is in one of these.
INSTANTIATE_TEST_SUITE_P(Models, RandomValues,
                         ::testing::Values(initial_models()[0], initial_models()[4], initial_models()[8]),
                         [](const auto& info) { return info.param.name; });

// Whatever the residual type, the attention and the sizes: of two shapes, the elements that both have.
TEST(InitialValuesOfOneName, AreTheSameInEveryModel) {
  std::map<std::string, std::vector<double>> seen;
  int shared = 0;
  const auto compare = [&](const model::ModelConfig& config) {
    Start start(config, 3);
    for (const auto& [name, found] : start.store.by_name()) {
      const Expected want = expected(name, found.slice.dims, config);
      if (want.std == 0 || want.std != (has(name, ".conv.") ? 0.02 : 0.006)) continue;
      std::vector<double> values = start[name];
      if (has(name, ".conv."))
        for (std::size_t i = 0; i < values.size(); ++i) values[i] -= want.base(std::int64_t(i));
      auto& before = seen[name];
      const std::size_t both = std::min(before.size(), values.size());
      shared += both > 0;
      EXPECT_TRUE(std::equal(values.begin(), values.begin() + std::ptrdiff_t(both), before.begin())) << name;
      if (values.size() > before.size()) before = values;
    }
  };
  for (const int m : {1, 4, 8}) {  // a type each; GQA and MLA
    compare(initial_models()[std::size_t(m)].config());
    model::ModelConfig other = initial_models()[std::size_t(m)].config();
    other.hidden_size = 88, other.vocab_size = 151, other.intermediate_size = 9, other.n_routed_experts = 4;
    compare(other);
  }
  EXPECT_GT(shared, 250);
}

}  // namespace
}  // namespace strata::test
