#include "model/stage.h"

#include "autograd/recompute.h"
#include "nn/norm.h"
#include "ops/add.h"
#include "ops/concat.h"
#include "ops/embedding.h"
#include "ops/head_loss.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace strata::model {
namespace {

Parameter& add_matrix(ParameterStore& store, const std::string& name, Dims dims, double std) {
  return store.add({.name = name, .dims = dims, .init = Init::normal(std)});
}

double per(std::int64_t count) { return count > 0 ? 1.0 / double(count) : 0.0; }

// What only an observer wants; training never holds tokens x vocabulary.
void observe_logits(Tape& tape, const Var& x, Parameter& head) {
  if (!tape.observer()->wants("logits")) return;
  Tape plain(tape.device(), {.recording = false, .recompute = {}, .observer = nullptr});
  const DType full = acc_of(x.value.dtype());
  tape.observer()->observe("logits", ops::linear(plain, plain.constant(x.value), head, full).value);
}

void observe_output(Tape& tape, residual::Slot slot, const Var& update) {
  const std::string name = concat("output.", slot.number);
  if (tape.observer()->wants(name)) tape.observer()->observe(name, update.value);
}

}  // namespace

Stage::Stage(const ModelConfig& config, StageRange range, ParameterStore& store, comm::Communicator* experts)
    : config_(config), range_(range) {
  const std::int64_t D = config.hidden_size, V = config.vocab_size;
  const double std = config.initializer_range;
  const bool shares_embedding = range.head && (config.tie_word_embeddings || config.has_mtp());
  if (range.embedding || shares_embedding)
    embedding_ = &store.add({.name = "model.embed_tokens.weight",
                             .dims = {V, D},
                             .init = Init::normal(std),
                             .shared = config.tie_word_embeddings || config.has_mtp()});
  const residual::SlotRange readers{slots().first, {slots().last.number + (range.head ? 1 : 0)}};
  residual_ = residual::make(config.residual, {D, int(config.sublayers()), std, readers}, store);
  for (int i = range.first; i < range.last; ++i) {
    store.begin_layer(i);
    blocks_.emplace_back(config, i, store, experts);
  }
  store.begin_layer(int(config.num_hidden_layers));  // the head, and what predicts the next token but one
  if (range.head) add_head(store, experts);
  store.begin_layer(-1);
}

void Stage::add_head(ParameterStore& store, comm::Communicator* experts) {
  const ModelConfig& config = config_;
  const std::int64_t D = config.hidden_size, V = config.vocab_size;
  const double std = config.initializer_range;
  norm_ = &nn::add_norm_weight(store, "model.norm.weight", D);
  head_ = config.tie_word_embeddings ? embedding_ : &add_matrix(store, "lm_head.weight", {V, D}, std);
  if (!config.has_mtp()) return;
  const std::string prefix = concat("model.layers.", config.num_hidden_layers, ".");
  next_ = std::make_unique<NextTokenModule>();
  next_->embedding_norm = &nn::add_norm_weight(store, prefix + "enorm.weight", D);
  next_->hidden_norm = &nn::add_norm_weight(store, prefix + "hnorm.weight", D);
  next_->projection = &add_matrix(store, prefix + "eh_proj.weight", {D, 2 * D}, std);
  next_->block = std::make_unique<Block>(config, config.num_hidden_layers, store, experts);
  next_->head_norm = &nn::add_norm_weight(store, prefix + "shared_head.norm.weight", D);
}

std::vector<nn::Moe*> Stage::moes() const {
  std::vector<nn::Moe*> all;
  for (const Block& b : blocks_)
    if (b.moe()) all.push_back(b.moe());
  if (next_) all.push_back(next_->block->moe());
  return all;
}

void Stage::allocate(device::Device& device) {
  for (nn::Moe* moe : moes()) moe->allocate(device);
}

residual::State Stage::open(Tape& tape, const MicroBatch& batch) const {
  return residual_->open(tape, ops::embedding(tape, batch.ids, *embedding_));
}

void Stage::layer(Tape& tape, residual::State& state, int index, const nn::Context& context,
                  std::vector<Var>& aux) const {
  const Block& block = blocks_[index - range_.first];
  for (const residual::Slot slot : {residual::Slot{2 * index + 1}, residual::Slot{2 * index + 2}}) {
    const residual::Reading reading = residual_->read(
        tape, state, slot, slot.is_attention() ? block.attention_norm() : block.feed_forward_norm());
    const Var update = slot.is_attention() ? block.attention(tape, reading.x, context)
                                           : block.feed_forward(tape, reading.x, context, aux);
    if (tape.observer()) observe_output(tape, slot, update);
    for (const Var& v : reading.releasable) tape.release({v}, Recompute::Norm);
    residual_->write(tape, state, reading, update);
  }
}

void Stage::recomputed_layer(Tape& tape, residual::State& state, int index, const nn::Context& context,
                             std::vector<Var>& aux) const {
  std::vector<Var> inputs;
  for (const Var* v : state.vars()) inputs.push_back(*v);
  const residual::State before = state;
  auto after = std::make_shared<residual::State>();
  auto body = [this, before, after, index, context](Tape& inner, const std::vector<Var>& in) {
    *after = before;
    const std::vector<Var*> vars = after->vars();
    for (std::size_t i = 0; i < in.size(); ++i) *vars[i] = in[i];
    std::vector<Var> balance;
    layer(inner, *after, index, context, balance);
    std::vector<Var> out;
    for (const Var* v : after->vars()) out.push_back(*v);
    out.insert(out.end(), balance.begin(), balance.end());
    return out;
  };
  const std::vector<Var> out = recompute(tape, inputs, body);
  state = *after;
  *after = {};  // the values it names are outputs now, not the wrapper's to keep
  const std::vector<Var*> vars = state.vars();
  for (std::size_t i = 0; i < vars.size(); ++i) *vars[i] = out[i];
  aux.insert(aux.end(), out.begin() + std::ptrdiff_t(vars.size()), out.end());
}

void Stage::layers(Tape& tape, residual::State& state, const MicroBatch& batch, const Counts& counts,
                   StageOptions options, std::vector<Var>& aux) const {
  const nn::Context context = batch.context(counts);
  state.range = slots();
  state.sequences = context.sequences;
  state.history = context.history;
  for (int i = range_.first; i < range_.last; ++i) {
    if (options.enters_layer) options.enters_layer(i);
    residual_->prepare(tape, state, {2 * i + 1});
    if (options.left_layer) tape.on_the_way_back([f = options.left_layer, i] { f(i); });
    if (options.recompute_layers)
      recomputed_layer(tape, state, i, context, aux);
    else
      layer(tape, state, i, context, aux);
  }
}

Var Stage::next_token_loss(Tape& tape, const Var& top, const MicroBatch& batch, const Counts& counts,
                           std::vector<Var>& aux) const {
  const nn::Context context = batch.context(counts);
  const double eps = config_.rms_norm_eps;
  const Var embedded =
      ops::rms_norm(tape, ops::embedding(tape, batch.next_ids, *embedding_), next_->embedding_norm, eps);
  const Var hidden = ops::rms_norm(tape, top, next_->hidden_norm, eps);
  Var h = ops::linear(tape, ops::concat_columns(tape, embedded, hidden), *next_->projection);
  const Block& block = *next_->block;
  const auto normed = [&](const residual::Norm& norm) {
    return ops::rms_norm(tape, h, norm.weight, norm.eps);
  };
  h = ops::add(tape, h, block.attention(tape, normed(block.attention_norm()), context));
  h = ops::add(tape, h, block.feed_forward(tape, normed(block.feed_forward_norm()), context, aux));
  const Var x = ops::rms_norm(tape, h, next_->head_norm, eps);
  return ops::head_loss(tape, x, *head_, batch.next_labels, per(counts.next_labels)).loss;
}

Losses Stage::close(Tape& tape, residual::State& state, const MicroBatch& batch, const Counts& counts,
                    StageOptions options, std::vector<Var> aux) const {
  if (options.enters_layer) options.enters_layer(int(config_.num_hidden_layers));
  if (options.left_layer)
    tape.on_the_way_back([f = options.left_layer, layer = int(config_.num_hidden_layers)] { f(layer); });
  state.sequences = batch.context(counts).sequences;
  const Var top = residual_->close(tape, state);
  const Var x = ops::rms_norm(tape, top, norm_, config_.rms_norm_eps);
  if (tape.observer()) observe_logits(tape, x, *head_);
  const ops::HeadLoss lm = ops::head_loss(tape, x, *head_, batch.labels, per(counts.labels));
  Losses losses{.lm = lm.loss, .mtp = {}, .aux = std::move(aux), .token_loss = lm.token_loss};
  if (next_) losses.mtp = next_token_loss(tape, top, batch, counts, losses.aux);
  return losses;
}

Losses Stage::forward(Tape& tape, const MicroBatch& batch, const Counts& counts, StageOptions options) const {
  residual::State state = open(tape, batch);
  std::vector<Var> aux;
  layers(tape, state, batch, counts, options, aux);
  return close(tape, state, batch, counts, options, std::move(aux));
}

Tensor Stage::logits(Tape& tape, const MicroBatch& batch, std::int64_t last) const {
  residual::State state = open(tape, batch);
  std::vector<Var> aux;
  layers(tape, state, batch, {}, {}, aux);
  const Tensor top = residual_->close(tape, state).value;
  const std::int64_t tokens = top.dim(0);
  const Var x =
      ops::rms_norm(tape, tape.constant(top.slice(tokens - last, tokens)), norm_, config_.rms_norm_eps);
  return ops::linear(tape, x, *head_, acc_of(top.dtype())).value;
}

void Stage::backward(Tape& tape, const Losses& losses, Weights when) const {
  tape.seed(losses.lm, 1);
  if (next_) tape.seed(losses.mtp, config_.mtp_loss_coef);
  for (const Var& aux : losses.aux) tape.seed(aux, 1);
  tape.backward(when);
}

void add_parameters(const ModelConfig& config, ParameterStore& store) {
  Stage(config, {0, int(config.num_hidden_layers), true, true}, store);
}

}  // namespace strata::model
