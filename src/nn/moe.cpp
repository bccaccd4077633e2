#include "nn/moe.h"

#include <numeric>

#include "device/out_of_memory.h"
#include "ops/add.h"
#include "ops/grouped_linear.h"
#include "ops/linear.h"
#include "ops/rows.h"
#include "ops/swiglu.h"

namespace strata::nn {
namespace {

double per(double coefficient, std::int64_t count) { return count > 0 ? coefficient / double(count) : 0.0; }

// Spread evenly, as many rows come as this rank sends; if it sends none, that number is not known here.
std::string rows_text(const ops::DispatchPlan& plan, const std::string& where) {
  const auto sum = [](const auto& rows) {
    return std::accumulate(rows.begin(), rows.end(), std::int64_t(0));
  };
  const std::int64_t even = sum(plan.send);
  return concat("rank ", plan.ranks->world_rank(plan.ranks->rank()), " received ", sum(plan.receive),
                " rows for its experts of ", where,
                even > 0 ? concat(", ", even, " if they were spread evenly") : "");
}

}  // namespace

Moe::Moe(ParameterStore& store, const std::string& prefix, const MoeConfig& config, comm::Communicator* ranks)
    : config_(config), name_(prefix), ranks_(ranks && ranks->size() > 1 ? ranks : nullptr) {
  const std::int64_t E = config.experts, F = config.expert_width, D = config.hidden_size;
  const std::int64_t P = ranks_ ? ranks_->size() : 1, count = E / P,
                     first = ranks_ ? ranks_->rank() * count : 0;
  STRATA_CHECK(E % P == 0, prefix, ": ", E, " experts over ", P, " ranks");
  const Init init = Init::normal(config.init_std);
  gate_ = &store.add(
      {.name = prefix + ".gate.weight", .dims = {E, D}, .init = init, .precision = Precision::Full});
  if (config.rule.scoring == kernels::Scoring::Sigmoid)
    bias_ = &store.add_buffer(prefix + ".gate.e_score_correction_bias", {E});
  ParameterSpec gate_up{.name = prefix + ".experts.gate_up",
                        .dims = {count, 2 * F, D},
                        .init = init,
                        .group = ReductionGroup::Expert};
  ParameterSpec down{
      .name = prefix + ".experts.down", .dims = {count, D, F}, .init = init, .group = ReductionGroup::Expert};
  for (std::int64_t e = 0; e < count; ++e) {
    const std::string name = concat(prefix, ".experts.", first + e);
    gate_up.slices.push_back({name + ".gate_proj.weight", 2 * e * F * D, {F, D}});
    gate_up.slices.push_back({name + ".up_proj.weight", (2 * e + 1) * F * D, {F, D}});
    down.slices.push_back({name + ".down_proj.weight", e * D * F, {D, F}});
  }
  gate_up_ = &store.add(std::move(gate_up));
  down_ = &store.add(std::move(down));
  if (config.shared_experts > 0)
    shared_ = std::make_unique<Mlp>(store, prefix + ".shared_experts", D, config.shared_experts * F,
                                    config.init_std);
}

void Moe::allocate(device::Device& device) {
  device_ = &device;
  load_ = Tensor(device, {config_.experts}, DType::Int64, device::Purpose::Data);
  from_host(device, load_, std::vector<std::int64_t>(config_.experts, 0));
}

Var Moe::experts(Tape& tape, const Var& rows, const Tensor& offsets) const {
  const Var hidden = ops::swiglu(tape, ops::grouped_linear(tape, rows, *gate_up_, offsets));
  const Var y = ops::grouped_linear(tape, hidden, *down_, offsets);
  tape.release({hidden}, Recompute::Activation);
  return y;
}

Moe::Both Moe::here(Tape& tape, const Var& x, const Var& rows, const ops::RoutingPlan& plan) const {
  const Var shared = shared_ ? shared_->forward(tape, x) : Var();
  return {experts(tape, rows, plan.offsets), shared};
}

// The shared experts need no other rank: their halves run while rows travel there and back.
Moe::Both Moe::spread(Tape& tape, const Var& x, const Var& rows, const ops::DispatchPlan& plan,
                      const std::string& where) const {
  try {
    const ops::InFlight there = ops::dispatch_begin(tape, rows, plan, "rows to the experts of " + where);
    const Var hidden = shared_ ? shared_->hidden(tape, x) : Var();
    const Var arrived = ops::dispatch_end(tape, there, plan);
    const Var done = experts(tape, arrived, plan.arrived.offsets);
    const ops::InFlight back = ops::combine_begin(tape, done, plan, "rows from the experts of " + where);
    const Var shared = shared_ ? shared_->down(tape, hidden) : Var();
    return {ops::combine_end(tape, back), shared};
  } catch (const device::OutOfMemory& e) {
    throw Error(concat(e.what(), "; ", rows_text(plan, where)));
  }
}

// Recomputed, the same rows go the same way: what was read back once serves again.
ops::DispatchPlan Moe::dispatch_plan(Tape& tape, const ops::RoutingPlan& plan, const Context& context,
                                     const std::string& where) const {
  auto& kept = *context.dispatch;
  if (tape.options().replay)
    if (auto found = kept.extract(this)) return std::move(found.mapped());
  return kept[this] =
             ops::plan_dispatch(tape, plan, *ranks_, "counts for the experts of " + where, dry_experts_);
}

MoeOutput Moe::forward(Tape& tape, const Var& x, const Context& context) const {
  kernels::RouterRule rule = config_.rule;
  rule.balance_coef = per(rule.balance_coef, context.global_sequences);
  rule.z_coef = per(rule.z_coef, context.global_tokens);
  const Var logits = ops::linear(tape, x, *gate_, acc_of(x.value.dtype()));
  const ops::Routed routed =
      ops::route(tape, logits, bias_ ? bias_->value : Tensor(), rule, context.sequences.batch, load_);
  const ops::RoutingPlan plan = ops::plan_routing(tape, routed.indices, config_.experts);
  const Var rows = ops::gather_rows(tape, x, plan);
  const std::string where = concat(name_, " in micro-batch ", context.micro_batch);
  const Both both = ranks_ ? spread(tape, x, rows, dispatch_plan(tape, plan, context, where), where)
                           : here(tape, x, rows, plan);
  const Var y = ops::combine_rows(tape, both.experts, routed.gates, plan);
  return {shared_ ? ops::add(tape, y, both.shared) : y, routed.aux};
}

void Moe::update_bias(double speed) {
  if (bias_ && speed != 0) {
    device_->compute().run(kernels::RouterBiasUpdate{.load = load_, .bias = bias_->value, .speed = speed});
    return;
  }
  from_host(*device_, load_, std::vector<std::int64_t>(config_.experts, 0));
}

}  // namespace strata::nn
