// Models of odd shapes against the naive reference: losses, logits, loads, depth weights and gates element by
// element, gradients by the reference's directional differences.
#include <gtest/gtest.h>

#include "base/philox.h"
#include "reference/model.h"
#include "support/op_case.h"
#include "support/small_model.h"

namespace strata::test {
namespace {

struct OddModel {
  std::string name;
  std::function<void(model::ModelConfig&)> change;
  std::int64_t rows = 2, length = 13;
  bool documents = true;
  std::function<void(HostBatch&)> change_batch = {};
  friend void PrintTo(const OddModel& m, std::ostream* out) { *out << m.name; }
};

residual::Config residual_of(residual::Type type, std::optional<std::int64_t> blocks, std::int64_t streams) {
  residual::Config r;
  r.type = type;
  r.num_blocks = blocks;
  r.streams = streams;
  return r;
}

std::vector<OddModel> odd_models() {
  using residual::Type;
  return {
      {"prime_widths",
       [](auto& c) {
         c.hidden_size = 31, c.intermediate_size = 29, c.moe_intermediate_size = 13, c.kv_lora_rank = 11;
         c.qk_nope_head_dim = 3, c.qk_rope_head_dim = 2, c.v_head_dim = 5, c.vocab_size = 41;
         c.residual = residual_of(Type::Msar, 3, 4);
       }},
      {"one_token", [](auto& c) { c.residual = residual_of(Type::Msar, 3, 4); }, 3, 1, false},
      {"one_token_attnres_mhc", [](auto& c) { c.residual = residual_of(Type::AttnResMhc, 3, 2); }, 2, 1,
       false},
      {"short_last_block",
       [](auto& c) { c.num_hidden_layers = 5, c.residual = residual_of(Type::Msar, 3, 3); }},
      {"block_inside_layer",
       [](auto& c) { c.num_hidden_layers = 3, c.residual = residual_of(Type::AttnRes, 2, 4); }},
      {"more_blocks_than_fit",
       [](auto& c) { c.num_hidden_layers = 3, c.residual = residual_of(Type::Msar, 5, 2); }},
      {"eight_streams", [](auto& c) { c.residual = residual_of(Type::Msar, 2, 8); }, 2, 21},
      {"one_view", [](auto& c) { c.residual = residual_of(Type::Msar, 2, 1); }},
      {"five_named_kernels",
       [](auto& c) {
         c.residual = residual_of(Type::Msar, 2, 5);
         c.residual.kernel_sizes = std::vector<std::int64_t>{1, 2, 3, 30};
       }},
      {"mean_fusion_no_conv",
       [](auto& c) {
         c.residual = residual_of(Type::Msar, {}, 3);
         c.residual.fusion = residual::Fusion::Mean;
         c.residual.expansion = residual::Expansion::None;
       }},
      {"mhc_eight_streams_mean",
       [](auto& c) {
         c.residual = residual_of(Type::Mhc, {}, 8);
         c.residual.readout = residual::Readout::Mean;
       }},
      {"mhc_one_stream_sum",
       [](auto& c) {
         c.residual = residual_of(Type::Mhc, {}, 1);
         c.residual.readout = residual::Readout::Sum;
       }},
      {"attnres_mhc_three",
       [](auto& c) {
         c.residual = residual_of(Type::AttnResMhc, 5, 3);
         c.residual.sinkhorn_iters = 3;
       }},
      {"all_experts", [](auto& c) { c.num_experts_per_tok = 5, c.norm_topk_prob = false; }},
      {"idle_experts", [](auto& c) { c.n_routed_experts = 40, c.num_experts_per_tok = 1; }, 1, 3, false},
      {"no_shared_experts", [](auto& c) { c.n_shared_experts = 0; }},
      {"softmax_groups",
       [](auto& c) {
         c.scoring_func = model::ScoringFunc::Softmax, c.n_routed_experts = 12, c.n_group = 4,
         c.topk_group = 2;
         c.num_experts_per_tok = 5, c.routed_scaling_factor = 2.5;
       }},
      {"sigmoid_groups",
       [](auto& c) { c.n_routed_experts = 9, c.n_group = 3, c.topk_group = 1, c.num_experts_per_tok = 3; }},
      {"softmax_raw_gates",
       [](auto& c) { c.scoring_func = model::ScoringFunc::Softmax, c.norm_topk_prob = false; }},
      {"dense_model",
       [](auto& c) {
         c.n_routed_experts = c.num_experts_per_tok = c.n_shared_experts = c.first_k_dense_replace = 0;
         c.seq_aux_loss_coef = c.router_z_loss_coef = 0;
         c.residual = residual_of(Type::Msar, 2, 4);
       }},
      {"all_layers_moe_one_layer", [](auto& c) { c.first_k_dense_replace = 0, c.num_hidden_layers = 1; }},
      {"gqa", [](auto& c) { use_gqa(c, 6, 2, 4), c.residual = residual_of(Type::AttnRes, {}, 4); }},
      {"gqa_one_key_head", [](auto& c) { use_gqa(c, 5, 1, 2), c.residual = residual_of(Type::Mhc, {}, 3); }},
      {"q_lora", [](auto& c) { c.q_lora_rank = 5; }},
      {"mtp_documents_tied",
       [](auto& c) {
         c.num_nextn_predict_layers = 1, c.tie_word_embeddings = true,
         c.residual = residual_of(Type::Msar, 3, 4);
       }},
      {"mtp_no_documents", [](auto& c) { c.num_nextn_predict_layers = 1; }, 2, 5, false},
      {"scattered_documents", [](auto& c) { c.residual = residual_of(Type::Msar, 2, 4); }, 2, 17, true,
       [](auto& b) {
         for (std::size_t i = 0; i < b.documents.size(); ++i)
           b.documents[i] = std::int64_t(i * i % 3) - 5000000000;
       }},
      {"nothing_counted", [](auto& c) { c.num_nextn_predict_layers = 1; }, 1, 6, false,
       [](auto& b) { b.labels.assign(b.labels.size(), -100); }},
      {"long_sequence", [](auto& c) { c.num_hidden_layers = 2, c.residual = residual_of(Type::Msar, 2, 4); },
       1, 150},
  };
}

reference::ModelSpec spec_of(const model::ModelConfig& c) {
  reference::ModelSpec s;
  s.vocab_size = c.vocab_size, s.hidden_size = c.hidden_size, s.num_hidden_layers = c.num_hidden_layers;
  s.num_attention_heads = c.num_attention_heads;
  s.attention = c.attention == model::Attention::Gqa ? "gqa" : "mla";
  s.num_key_value_heads = c.num_key_value_heads.value_or(0), s.head_dim = c.head_dim.value_or(0);
  s.q_lora_rank = c.q_lora_rank.value_or(0), s.kv_lora_rank = c.kv_lora_rank;
  s.qk_nope_head_dim = c.qk_nope_head_dim, s.qk_rope_head_dim = c.qk_rope_head_dim,
  s.v_head_dim = c.v_head_dim;
  s.intermediate_size = c.intermediate_size, s.moe_intermediate_size = c.moe_intermediate_size;
  s.n_routed_experts = c.n_routed_experts, s.n_shared_experts = c.n_shared_experts;
  s.num_experts_per_tok = c.num_experts_per_tok;
  s.first_k_dense_replace = c.has_moe() ? c.first_k_dense_replace : c.num_hidden_layers;
  s.scoring_func = c.scoring_func == model::ScoringFunc::Sigmoid ? "sigmoid" : "softmax";
  s.norm_topk_prob = c.norm_topk_prob, s.routed_scaling_factor = c.routed_scaling_factor;
  s.n_group = c.n_group, s.topk_group = c.topk_group;
  s.seq_aux_loss_coef = c.seq_aux_loss_coef, s.router_z_loss_coef = c.router_z_loss_coef;
  s.rms_norm_eps = c.rms_norm_eps, s.rope_theta = c.rope_theta, s.tie_word_embeddings = c.tie_word_embeddings;
  s.num_nextn_predict_layers = c.num_nextn_predict_layers, s.mtp_loss_coef = c.mtp_loss_coef;
  s.residual = {.type = std::string(name_of(c.residual.type)),
                .num_blocks = c.residual.num_blocks.value_or(0),
                .streams = c.residual.streams,
                .kernel_sizes = c.residual.has_convolutions() ? c.residual.kernels() : reference::Ids{},
                .expansion = std::string(name_of(c.residual.expansion)),
                .fusion = std::string(name_of(c.residual.fusion)),
                .sinkhorn_iters = c.residual.sinkhorn_iters,
                .readout = std::string(name_of(c.residual.readout)),
                .key_norm_eps = c.residual.key_norm_eps};
  return s;
}

class OddModels : public ::testing::TestWithParam<OddModel> {
 protected:
  void SetUp() override {
    config = small_config({});
    GetParam().change(config);
    ASSERT_NO_THROW(config.validate());
    batch = small_batch(config, GetParam().rows, GetParam().length, 5, GetParam().documents);
    if (GetParam().change_batch) GetParam().change_batch(batch);
    run.prepare = [this](ParameterStore& store) {
      for (const auto& [name, found] : store.by_name()) shapes[name] = found.slice.dims;
    };
    ours = run_model(config, batch, run);
    for (const auto& [name, values] : ours.weights) {
      const Dims d = shapes.at(name);
      weights[name] = reference::Array({d.extent.begin(), d.extent.begin() + d.rank}, values);
    }
  }
  reference::ModelOutput reference_output(const reference::Weights& w) const {
    return reference::model_forward(
        spec_of(config), w, {batch.rows, batch.length, batch.input_ids, batch.labels, batch.documents});
  }

  model::ModelConfig config;
  HostBatch batch;
  ModelRun run;
  std::map<std::string, Dims> shapes;
  ModelResult ours;
  reference::Weights weights;
};

TEST_P(OddModels, ForwardEqualsReference) {
  const reference::ModelOutput want = reference_output(weights);
  EXPECT_NEAR(ours.loss, want.loss, 1e-11 * std::max(1.0, std::abs(want.loss)));
  EXPECT_NEAR(ours.lm_loss, want.lm_loss, 1e-11 * std::max(1.0, std::abs(want.lm_loss)));
  EXPECT_NEAR(ours.aux_loss, want.aux_loss, 1e-11);
  EXPECT_NEAR(ours.mtp_loss, want.mtp_loss, 1e-11 * std::max(1.0, std::abs(want.mtp_loss)));
  EXPECT_LE(relative_error(ours.logits, want.logits.data), 1e-11);
  EXPECT_LE(relative_error(ours.token_loss, want.token_loss.data), 1e-11);
  ASSERT_EQ(ours.loads.size(), want.expert_load.size());
  for (std::size_t k = 0; k < ours.loads.size(); ++k)
    EXPECT_EQ(std::vector<std::int64_t>(ours.loads[k].begin(), ours.loads[k].end()), want.expert_load[k]);
  for (const auto& [l, w] : want.depth_weights)
    EXPECT_LE(relative_error(ours.observed.at(concat("depth_weights.", l)), w.data), 1e-10) << l;
  for (const auto& [l, g] : want.gates)
    EXPECT_LE(relative_error(ours.observed.at(concat("gate.", l)), g.data), 1e-10) << l;
}

TEST_P(OddModels, GradientsMatchDirectionalDifferences) {
  double all = 0;
  for (const auto& [name, g] : ours.grads)
    for (const double x : g) all += x * x;
  for (const auto& [name, g] : ours.grads) {
    const Philox random(11, name);
    double along = 0;
    const double h = 1e-5;
    reference::Weights up = weights, down = weights;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double v = random.normal(i) / std::sqrt(double(g.size()));
      along += g[i] * v;
      up[name].data[i] += h * v;
      down[name].data[i] -= h * v;
    }
    const double difference = (reference_output(up).loss - reference_output(down).loss) / (2 * h);
    EXPECT_NEAR(along, difference, 2e-6 * std::max(std::abs(difference), 1e-2 * std::sqrt(all)) + 1e-9)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OddModels, ::testing::ValuesIn(odd_models()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test
