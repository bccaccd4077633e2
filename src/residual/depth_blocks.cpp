#include "residual/depth_blocks.h"

#include <algorithm>

#include "nn/norm.h"

namespace strata::residual {
namespace {

constexpr const char* kPartial = "partial";

std::string block_name(int block) { return concat("block/", block); }

}  // namespace

DepthBlocks::DepthBlocks(const Config& config, const Shape& shape, const Options& options,
                         ParameterStore& store)
    : options_(options),
      width_(shape.hidden_size),
      eps_(config.key_norm_eps),
      sublayers_(shape.sublayers),
      size_(int(config.block_size(shape.sublayers))),
      count_(int(config.block_count(shape.sublayers))) {
  const bool one_query = config.type == Type::AttnRes;
  targets_.resize(sublayers_ + 2);
  for (int l = options.first_target; l <= sublayers_ + 1; ++l) {
    if (!shape.reads(l)) continue;
    const bool is_head = l == head().number;
    sources_ = std::max(sources_, is_head ? count_ + 1 : block({l}) + (opens_block({l}) ? 0 : 1));
    targets_[l].query = &store.add({.name = prefix({l}) + ".query",
                                    .dims = one_query ? Dims{width_} : Dims{options.views, width_},
                                    .init = Init::constant(0),
                                    .decay = Decay::No,
                                    .precision = Precision::Full});
    targets_[l].key_norm = &nn::add_norm_weight(store, prefix({l}) + ".key_norm.weight", width_);
  }
}

void DepthBlocks::add_convolutions(const Config& config, ParameterStore& store) {
  const std::vector<std::int64_t> kernels = config.kernels();
  for (const std::int64_t taps : kernels) reach_ = std::max(reach_, taps - 1);
  convs_.resize(count_ + 1);
  for (int j = 0; j < sources_; ++j)
    for (std::size_t r = 0; r < kernels.size(); ++r) {
      const std::int64_t taps = kernels[r];
      const Init delta{config.conv_init_std, [taps](std::int64_t i) { return i % taps == 0 ? 1.0 : 0.0; }};
      convs_[j].push_back(
          &store.add({.name = concat("model.residual_sources.", j, ".conv.", r + 1, ".weight"),
                      .dims = {width_, taps},
                      .init = delta,
                      .decay = Decay::No,
                      .precision = Precision::Full,
                      .shared = true}));
    }
}

std::string DepthBlocks::prefix(Slot target) const {
  return target == head() ? "model.out_res" : parameter_prefix(target);
}

int DepthBlocks::last_of_block(Slot slot) const {
  return slot == head() ? slot.number : std::min(block(slot) * size_, sublayers_);
}

State DepthBlocks::open(const Var& b0) const {
  State state;
  state.items.push_back({block_name(0), true, b0});
  return state;
}

const Prepared* DepthBlocks::find(const State& state, Slot slot) const {
  for (const Prepared& p : state.prepared)
    if (p.target == slot) return &p;
  return nullptr;
}

std::int64_t DepthBlocks::earlier(const State& state) const {
  return reaches_back(state) ? std::min(reach_, state.history->tokens()) : 0;
}

Sequences DepthBlocks::lengthened(const State& state) const {
  Sequences s = state.sequences;
  s.length += earlier(state);
  return s;
}

void DepthBlocks::prepare(Tape& tape, State& state, Slot next) const {
  const int first = std::max(next.number, options_.first_target);
  const int last = next == head() ? next.number : std::min(last_of_block(next), state.range.last.number);
  if (first > last || find(state, {first})) return;
  std::vector<Var> sources;
  for (const Item& item : state.items)
    if (item.sealed) sources.push_back(item.var);
  const std::size_t completed = next == head() ? count_ + 1 : block(next);
  STRATA_CHECK(sources.size() == completed, "sub-layer ", next.number, " retrieves from ", completed,
               " blocks, the state has ", sources.size());
  if (reaches_back(state))
    for (std::size_t j = 0; j < completed; ++j)
      sources[j] = state.history->last(tape, *convs_[j].front(), sources[j], reach_);
  std::vector<ops::ConvSet> convs;
  if (!convs_.empty()) convs.assign(convs_.begin(), convs_.begin() + std::ptrdiff_t(completed));
  const std::vector<ops::DepthTarget> targets(targets_.begin() + first, targets_.begin() + last + 1);
  const auto opened =
      ops::depth_attend(tape, sources, convs, targets, lengthened(state), options_.views, eps_);
  for (std::size_t k = 0; k < opened.size(); ++k)
    state.prepared.push_back(
        {{first + int(k)}, opened[k].out, opened[k].lse, tape.observer() ? opened[k].logits : Tensor()});
}

ops::DepthMerged DepthBlocks::retrieve(Tape& tape, State& state, Slot slot,
                                       const ops::DepthFusion& fusion) const {
  prepare(tape, state, slot);
  const Prepared& prepared = *find(state, slot);
  ops::DepthPartial running;
  const Var* sum = partial(state, slot);
  if (sum) running = {*sum, convs_.empty() ? ops::ConvSet() : convs_[block(slot)], targets_[slot.number]};
  if (sum && reaches_back(state))
    running.value = state.history->last(tape, *running.target.query, *sum, reach_);
  ops::DepthMerged merged = ops::depth_merge(tape, prepared.out, prepared.lse, sum ? &running : nullptr,
                                             fusion, lengthened(state), eps_);
  if (tape.observer()) observe(tape, prepared, merged);
  if (const std::int64_t before = earlier(state))
    merged.y.value = merged.y.value.slice(before, before + state.sequences.tokens());
  return merged;
}

void DepthBlocks::observe(Tape& tape, const Prepared& prepared, const ops::DepthMerged& merged) const {
  const std::string weights_name = concat("depth_weights.", prepared.target.number);
  const std::string gate_name = concat("gate.", prepared.target.number);
  Observer& observer = *tape.observer();
  if (merged.gates.defined() && observer.wants(gate_name)) observer.observe(gate_name, merged.gates);
  if (!observer.wants(weights_name)) return;
  const Dims n = prepared.logits.dims();  // N T M
  const std::int64_t columns = n[0] + (merged.logits.defined() ? 1 : 0);
  const Tensor weights = tape.empty({n[2], columns, n[1]}, prepared.logits.dtype());
  tape.stream().run(kernels::DepthWeights{.logits = prepared.logits,
                                          .lse = prepared.lse.value,
                                          .partial_logits = merged.logits,
                                          .weights = weights});
  observer.observe(weights_name, weights);
}

Var* DepthBlocks::partial(State& state, Slot slot) const {
  return slot == head() || opens_block(slot) ? nullptr : &state[kPartial];
}

void DepthBlocks::settle(State& state, Slot slot, const Var& sum) const {
  if (!state.items.back().sealed) state.items.pop_back();
  const bool sealed = closes_block(slot);
  state.items.push_back({sealed ? block_name(block(slot)) : kPartial, sealed, sum});
}

void DepthBlocks::release(Tape& tape, State& state, Slot slot, const Var* merged) const {
  if (merged) tape.release({*merged}, Recompute::DepthRetrieval);
  if (state.prepared.empty() || !(state.prepared.back().target == slot)) return;
  std::vector<Var> outs;
  for (const Prepared& p : state.prepared) outs.push_back(p.out);
  tape.release(outs, Recompute::DepthRetrieval);
  state.prepared.clear();
}

Boundary DepthBlocks::boundary(Slot next) const {
  std::vector<std::int64_t> shape{width_};
  if (options_.streams) shape.insert(shape.begin(), options_.views);
  const int completed = next == head() ? count_ : block(next) - 1;
  Boundary items;
  for (int j = 0; j <= completed; ++j) items.push_back({block_name(j), true, shape, true});
  if (next != head() && !opens_block(next)) items.push_back({kPartial, false, shape, true});
  return items;
}

}  // namespace strata::residual
