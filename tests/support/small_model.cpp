#include "support/small_model.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

residual::Config with(residual::Type type, std::optional<std::int64_t> blocks = {},
                      std::int64_t streams = 4) {
  residual::Config c;
  c.type = type;
  c.num_blocks = blocks;
  c.streams = streams;
  return c;
}

// A stage with its store and one tape.
struct Side {
  ParameterStore store;
  model::Stage stage;
  Side(device::Device& device, const model::ModelConfig& config, model::StageRange range, const ModelRun& run)
      : stage(config, range, store, run.experts) {
    store.allocate(device, run.compute);
    stage.allocate(device);
    move_weights(store, run);
    if (run.prepare) run.prepare(store);
    store.zero_grads();
  }
};

class Collect final : public Observer {
 public:
  Collect(device::Device& device, ModelResult& result) : device_(device), result_(result) {}
  void observe(const std::string& name, const Tensor& value) override {
    const std::vector<double> v = to_host(device_, value, "test");
    auto& to = name == "logits" ? result_.logits : result_.observed[name];
    to.insert(to.end(), v.begin(), v.end());
  }

 private:
  device::Device& device_;
  ModelResult& result_;
};

void add_losses(device::Device& device, const model::Losses& losses, const model::ModelConfig& config,
                ModelResult& r) {
  const auto scalar = [&](const Var& v) { return to_host(device, v.value, "test").at(0); };
  r.lm_loss += scalar(losses.lm);
  for (const Var& aux : losses.aux) r.aux_loss += scalar(aux);
  if (config.has_mtp()) r.mtp_loss += scalar(losses.mtp);
  r.loss = r.lm_loss + r.aux_loss + config.mtp_loss_coef * r.mtp_loss;
  const std::vector<double> tokens = to_host(device, losses.token_loss, "test");
  r.token_loss.insert(r.token_loss.end(), tokens.begin(), tokens.end());
}

void add_grads(device::Device& device, ParameterStore& store, ModelResult& r) {
  for (const auto& [name, found] : store.by_name()) {
    r.weights[name] = to_host(device, found.master(), "test");
    if (!found.parameter) continue;
    const std::vector<double> g = to_host(device, found.grad(), "test");
    auto& sum = r.grads[name];
    if (sum.empty()) sum.assign(g.size(), 0.0);
    for (std::size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
  }
}

void add_loads(device::Device& device, const model::Stage& stage, ModelResult& r) {
  for (nn::Moe* moe : stage.moes()) r.loads.push_back(to_host(device, moe->load(), "test"));
}

std::string compare_boundary(const residual::State& state, const residual::Boundary& boundary,
                             std::int64_t tokens) {
  if (state.items.size() != boundary.size())
    return concat(state.items.size(), " items, ", boundary.size(), " declared");
  for (std::size_t i = 0; i < boundary.size(); ++i) {
    Dims dims{tokens};
    for (const std::int64_t e : boundary[i].shape) dims.extent[dims.rank++] = e;
    const residual::Item& item = state.items[i];
    if (item.name != boundary[i].name || item.sealed != boundary[i].sealed ||
        !(item.var.value.dims() == dims))
      return concat("item ", item.name, " ", item.var.value.dims().text(), " sealed=", item.sealed,
                    ", declared ", boundary[i].name, " ", dims.text(), " sealed=", boundary[i].sealed);
  }
  return {};
}

}  // namespace

std::vector<Variant> residual_variants() {
  using residual::Type;
  std::vector<Variant> all{{"vanilla", with(Type::Vanilla)},
                           {"attnres_full", with(Type::AttnRes)},
                           {"attnres_block", with(Type::AttnRes, 3)},
                           {"msar_full", with(Type::Msar, {}, 3)},
                           {"msar_block", with(Type::Msar, 3)},
                           {"msar_two_blocks", with(Type::Msar, 2, 2)},
                           {"msar_mean", with(Type::Msar, 3)},
                           {"msar_no_conv", with(Type::Msar, 3)},
                           {"mhc", with(Type::Mhc)},
                           {"mhc_mean", with(Type::Mhc, {}, 2)},
                           {"mhc_sum", with(Type::Mhc, {}, 3)},
                           {"attnres_mhc", with(Type::AttnResMhc, 3)},
                           {"attnres_mhc_full", with(Type::AttnResMhc, {}, 2)}};
  for (Variant& v : all) {
    if (v.name == "msar_mean") v.config.fusion = residual::Fusion::Mean;
    if (v.name == "msar_no_conv") v.config.expansion = residual::Expansion::None;
    if (v.name == "mhc_mean") v.config.readout = residual::Readout::Mean;
    if (v.name == "mhc_sum") v.config.readout = residual::Readout::Sum;
  }
  return all;
}

model::ModelConfig small_config(const residual::Config& residual) {
  model::ModelConfig c;
  c.vocab_size = 37;
  c.hidden_size = 20;
  c.num_hidden_layers = 4;
  c.num_attention_heads = 3;
  c.kv_lora_rank = 7;
  c.qk_nope_head_dim = 5;
  c.qk_rope_head_dim = 4;
  c.v_head_dim = 6;
  c.intermediate_size = 23;
  c.moe_intermediate_size = 11;
  c.n_routed_experts = 5;
  c.n_shared_experts = 1;
  c.num_experts_per_tok = 2;
  c.first_k_dense_replace = 1;
  c.seq_aux_loss_coef = 0.02;
  c.router_z_loss_coef = 0.003;
  c.initializer_range = 0.05;
  c.residual = residual;
  return c;
}

void use_gqa(model::ModelConfig& config, std::int64_t heads, std::int64_t key_heads, std::int64_t dim) {
  config.attention = model::Attention::Gqa;
  config.num_attention_heads = heads;
  config.num_key_value_heads = key_heads;
  config.head_dim = dim;
}

HostBatch small_batch(const model::ModelConfig& config, std::int64_t rows, std::int64_t length,
                      std::uint64_t seed, bool documents) {
  const Philox random(seed, "batch");
  HostBatch b{.rows = rows, .length = length, .input_ids = {}, .labels = {}, .documents = {}};
  for (std::int64_t i = 0; i < rows * length; ++i) {
    b.input_ids.push_back(std::int64_t(random.bits(3 * i) % std::uint64_t(config.vocab_size)));
    const bool counted = random.uniform(3 * i + 1) < 0.85;
    b.labels.push_back(counted ? std::int64_t(random.bits(3 * i + 2) % std::uint64_t(config.vocab_size))
                               : -100);
    if (documents) b.documents.push_back(i % length < length / 2 ? 0 : i % length < 3 * length / 4 ? 7 : 9);
  }
  return b;
}

void move_weights(ParameterStore& store, const ModelRun& run) {
  store.initialize(run.seed);
  if (run.scale_norms == 0) return;
  for (const auto& [name, found] : store.by_name()) {
    const Philox random(run.seed, "moved " + name);
    std::vector<double> values(found.slice.dims.numel());
    const bool norm = name.ends_with("norm.weight");
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (norm ? 1 : 0) + run.scale_norms * random.normal(i);
    store.set(name, values);
  }
}

double worst_difference(const Values& a, const Values& b) {
  double all = 0, worst = 0;
  for (const auto& [name, v] : b)
    for (const double x : v) all += x * x;
  for (const auto& [name, v] : b) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      difference += (a.at(name)[i] - v[i]) * (a.at(name)[i] - v[i]);
      norm += v[i] * v[i];
    }
    worst = std::max(worst, std::sqrt(difference) / std::max(std::sqrt(norm), 1e-3 * std::sqrt(all)));
  }
  return worst;
}

ModelResult run_model(const model::ModelConfig& config, const HostBatch& batch, const ModelRun& run) {
  device::Device device(run.experts ? open_device_options() : device_options());
  Side side(device, config, {0, int(config.num_hidden_layers), true, true}, run);
  const model::Counts counts = run.counts.value_or(model::count(batch));
  const std::int64_t step = std::max<std::int64_t>(1, run.micro_batch ? run.micro_batch : batch.rows);
  ModelResult result;
  Collect collect(device, result);
  std::int64_t row = 0;
  do {  // once also without rows
    const model::MicroBatch micro =
        model::upload(device, batch.slice(row, std::min(batch.rows, row + step)), config.has_mtp());
    Tape::Options options = run.tape;
    options.observer = &collect;
    Tape tape(device, options);
    const model::Losses losses =
        side.stage.forward(tape, micro, counts, {.recompute_layers = run.recompute_layers});
    side.stage.backward(tape, losses, run.when);
    tape.backward_weights();
    add_losses(device, losses, config, result);
    row += step;
  } while (row < batch.rows);
  add_grads(device, side.store, result);
  add_loads(device, side.stage, result);
  return result;
}

CutResult run_cut(const model::ModelConfig& config, const HostBatch& batch, int cut, const ModelRun& run) {
  device::Device device(device_options());
  const int layers = int(config.num_hidden_layers);
  Side low(device, config, {0, cut, true, false}, run), high(device, config, {cut, layers, false, true}, run);
  const model::Counts counts = model::count(batch);
  const model::MicroBatch micro = model::upload(device, batch, config.has_mtp());
  CutResult result;
  Collect collect(device, result.whole);
  Tape::Options options = run.tape;
  options.observer = &collect;
  Tape first(device, options), second(device, options);
  const model::StageOptions stage_options{.recompute_layers = run.recompute_layers};

  residual::State sent = low.stage.open(first, micro);
  std::vector<Var> low_aux, high_aux;
  low.stage.layers(first, sent, micro, counts, stage_options, low_aux);
  result.boundary_fault =
      compare_boundary(sent, low.stage.residual().boundary({2 * cut + 1}), batch.rows * batch.length);

  residual::State received;
  for (const residual::Item& item : sent.items) {
    received.items.push_back({item.name, item.sealed, second.leaf(item.var.value)});
    if (item.sealed) result.sealed[item.name] = to_host(device, item.var.value, "test");
  }
  const std::vector<residual::Item> leaves = received.items;
  high.stage.layers(second, received, micro, counts, stage_options, high_aux);
  const model::Losses losses = high.stage.close(second, received, micro, counts, stage_options, high_aux);
  high.stage.backward(second, losses, run.when);

  for (const Var& aux : low_aux) first.seed(aux, 1);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (const Tensor g = second.grad(leaves[i].var); g.defined()) first.adopt_grad(sent.items[i].var, g);
  first.backward(run.when);
  second.backward_weights();
  first.backward_weights();

  model::Losses all = losses;
  all.aux.insert(all.aux.begin(), low_aux.begin(), low_aux.end());
  add_losses(device, all, config, result.whole);
  add_grads(device, low.store, result.whole);
  add_grads(device, high.store, result.whole);
  add_loads(device, low.stage, result.whole);
  add_loads(device, high.stage, result.whole);
  return result;
}

}  // namespace strata::test
