#include "ops/router.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/moe.h"
#include "reference/router.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using reference::Array;

struct RouterCase final : OpCase {
  std::int64_t tokens, experts, batch;
  kernels::RouterRule rule;
  double scale = 1, shift = 0;

  RouterCase(std::int64_t t, std::int64_t e, std::int64_t b, kernels::RouterRule r)
      : tokens(t), experts(e), batch(b), rule(r) {
    bfloat16 = false;
    difference_tolerance = 1e-5;
  }
  std::vector<OpInput> inputs() const override {
    return {{"logits", {tokens, experts}, OpInput::FullActivation, scale, shift}};
  }
  Array bias() const {
    Array b({experts});
    for (std::int64_t e = 0; e < experts; ++e)
      b.data[e] = rule.scoring == kernels::Scoring::Sigmoid ? 0.0625 * double(e % 5) : 0;
    return b;
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    device::Device& device = tape.device();
    const Tensor load = upload_int(device, std::vector<std::int64_t>(experts, 0), {experts}, DType::Int64);
    const bool biased = rule.scoring == kernels::Scoring::Sigmoid;
    const Tensor b = biased ? upload(device, bias(), args.var("logits").value.dtype()) : Tensor();
    const ops::Routed r = ops::route(tape, args.var("logits"), b, rule, batch, load);
    std::int64_t routed = 0;
    for (const std::int64_t n : to_host_int(device, load, "test")) routed += n;
    EXPECT_EQ(routed, tokens * rule.top_k);
    return {r.gates, r.aux};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const reference::RouterSpec spec{
        .num_experts_per_tok = rule.top_k,
        .scoring_func = rule.scoring == kernels::Scoring::Sigmoid ? "sigmoid" : "softmax",
        .n_group = rule.groups,
        .topk_group = rule.top_groups,
        .norm_topk_prob = rule.normalize,
        .routed_scaling_factor = rule.scale,
        .seq_aux_loss_coef = rule.balance_coef * double(batch),
        .router_z_loss_coef = rule.z_coef * double(tokens)};
    const bool biased = rule.scoring == kernels::Scoring::Sigmoid;
    const auto r = reference::route_logits(in.at("logits"), biased ? bias() : Array(), spec, tokens / batch);
    return {r.gates, Array({1}, {r.balance_loss + r.z_loss})};
  }
};

using kernels::Scoring;

TEST(Router, Sigmoid) { check_op(RouterCase(14, 7, 2, {Scoring::Sigmoid, 3, 1, 1, true, 2.5, 0.02, 0.003})); }
TEST(Router, SigmoidRawGates) {
  check_op(RouterCase(13, 5, 1, {Scoring::Sigmoid, 2, 1, 1, false, 1.5, 0.02, 0}));
}
TEST(Router, SigmoidGroups) {
  check_op(RouterCase(22, 12, 2, {Scoring::Sigmoid, 4, 4, 2, true, 1, 0.1, 0.01}));
}
TEST(Router, Softmax) { check_op(RouterCase(15, 6, 3, {Scoring::Softmax, 2, 1, 1, true, 1, 0.05, 0.02})); }
TEST(Router, SoftmaxRawGatesGroups) {
  check_op(RouterCase(9, 8, 1, {Scoring::Softmax, 3, 4, 2, false, 2, 0.05, 0.02}));
}
TEST(Router, SigmoidGroupsOfOne) {
  check_op(RouterCase(10, 6, 2, {Scoring::Sigmoid, 2, 6, 3, true, 1, 0.1, 0.01}));
}
TEST(Router, AllExpertsOneToken) {
  check_op(RouterCase(1, 5, 1, {Scoring::Sigmoid, 5, 1, 1, true, 1, 0.02, 0.003}));
}
TEST(Router, ScoresThatVanish) {
  RouterCase c(12, 6, 2, {Scoring::Sigmoid, 2, 1, 1, true, 1, 0.5, 0});
  c.shift = -60;
  check_op(c);
}

// Sigmoid scores of e-26 are no way below the balance loss of an even load, which is its coefficient.
TEST(Router, BalanceLossHasItsFloorWhereScoresVanish) {
  device::Device device;
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    Tape tape(device);
    const Tensor load = upload_int(device, std::vector<std::int64_t>(4, 0), {4}, DType::Int64);
    Array low({6, 4});
    std::fill(low.data.begin(), low.data.end(), -60);
    const Var logits = tape.leaf(upload(device, low, dtype));
    const ops::Routed r = ops::route(tape, logits, {}, {Scoring::Sigmoid, 2, 1, 1, true, 1, 0.5, 0}, 1, load);
    EXPECT_NEAR(to_host(device, r.aux.value, "test").at(0), 0.5, 1e-6);
    for (const double gate : to_host(device, r.gates.value, "test")) EXPECT_NEAR(gate, 0.5, 1e-6);
    tape.seed(r.aux, 1);
    tape.backward();
    for (const double g : to_host(device, tape.grad(logits), "test")) EXPECT_LT(std::abs(g), 1) << "finite";
  }
}

// All scores are 0 in float32: the lower index wins, and shares are still those of the exact scores.
TEST(Router, ScoresThatUnderflow) {
  device::Device device;
  Tape tape(device);
  const Tensor load = upload_int(device, {0, 0, 0}, {3}, DType::Int64);
  const Var logits = tape.leaf(upload(device, Array({1, 3}, {-121, -120, -119}), DType::Float32));
  const kernels::RouterRule rule{Scoring::Sigmoid, 2, 1, 1, true, 1, 0.5, 0};
  const ops::Routed r = ops::route(tape, logits, {}, rule, 1, load);
  const double high = 1 / (1 + std::exp(-1.0)), low = 1 - high;
  EXPECT_EQ(to_host_int(device, r.indices, "test"), (std::vector<std::int64_t>{0, 1}));
  EXPECT_LE(relative_error(to_host(device, r.gates.value, "test"), {low, high}), 1e-5);
  Tensor dgates(device, {1, 2}, DType::Float32);
  from_host(device, dgates, std::vector<double>{1, 0});
  tape.adopt_grad(r.gates, dgates);
  tape.seed(r.aux, 0);
  tape.backward();
  EXPECT_LE(relative_error(to_host(device, tape.grad(logits), "test"), {low * high, -low * high, 0}), 1e-5);
}

// Few distinct logits, so that scores and group values tie often.
void expect_reference_choices(std::int64_t experts, kernels::RouterRule rule) {
  const std::int64_t tokens = 64;
  Array logits({tokens, experts});
  for (std::int64_t i = 0; i < logits.size(); ++i) logits.data[i] = double((i * i + i / 7) % 5) - 2;
  const reference::RouterSpec spec{.num_experts_per_tok = rule.top_k,
                                   .scoring_func = rule.scoring == Scoring::Sigmoid ? "sigmoid" : "softmax",
                                   .n_group = rule.groups,
                                   .topk_group = rule.top_groups};
  const auto want = reference::route_logits(logits, {}, spec, tokens);
  device::Device device;
  Tape tape(device);
  const Tensor load = upload_int(device, std::vector<std::int64_t>(experts, 0), {experts}, DType::Int64);
  const ops::Routed r =
      ops::route(tape, tape.leaf(upload(device, logits, DType::Float64)), {}, rule, 1, load);
  EXPECT_EQ(to_host_int(device, r.indices, "test"), want.experts);
  EXPECT_EQ(to_host_int(device, load, "test"), want.loads);
}

TEST(Router, ChoicesAmongTies) {
  for (const Scoring scoring : {Scoring::Sigmoid, Scoring::Softmax}) {
    expect_reference_choices(7, {scoring, 3, 1, 1});
    expect_reference_choices(12, {scoring, 4, 4, 2});
    expect_reference_choices(9, {scoring, 3, 3, 1});
    expect_reference_choices(6, {scoring, 2, 6, 3});  // groups of one expert
    expect_reference_choices(5, {scoring, 5, 1, 1});
  }
}

TEST(Router, AReplayCountsNothing) {
  device::Device device;
  Tape tape(device, {.recording = true, .recompute = {}, .observer = nullptr, .replay = true});
  const Tensor load = upload_int(device, {5, 0, 2}, {3}, DType::Int64);
  ops::route(tape, tape.leaf(upload(device, Array({1, 3}, {1, 2, 3}), DType::Float32)), {}, {.top_k = 2}, 1,
             load);
  EXPECT_EQ(to_host_int(device, load, "test"), (std::vector<std::int64_t>{5, 0, 2}));
}

TEST(Router, LowerIndexWinsATieAndLoadsAccumulate) {
  device::Device device;
  Tape tape(device);
  const Tensor load = upload_int(device, {0, 0, 0, 0}, {4}, DType::Int64);
  const Var logits = tape.leaf(upload(device, Array({2, 4}, {1, 2, 2, 2, 0, 0, 0, 0}), DType::Float32));
  for (int micro = 0; micro < 2; ++micro) {
    const ops::Routed r = ops::route(tape, logits, {}, {.scoring = Scoring::Sigmoid, .top_k = 2}, 1, load);
    EXPECT_EQ(to_host_int(device, r.indices, "test"), (std::vector<std::int64_t>{1, 2, 0, 1}));
  }
  EXPECT_EQ(to_host_int(device, load, "test"), (std::vector<std::int64_t>{2, 4, 2, 0}));
}

TEST(Router, BiasMovesAgainstTheLoad) {
  device::Device device;
  const Tensor load = upload_int(device, {9, 3, 0, 4}, {4}, DType::Int64);
  const Tensor bias = upload(device, Array({4}, {0.5, 0.5, 0.5, 0.5}), DType::Float32);
  device.compute().run(kernels::RouterBiasUpdate{.load = load, .bias = bias, .speed = 0.25});
  EXPECT_EQ(to_host(device, bias, "test"), (std::vector<double>{0.25, 0.75, 0.75, 0.5}));  // the mean is 4
  EXPECT_EQ(to_host_int(device, load, "test"), (std::vector<std::int64_t>{0, 0, 0, 0}));
}

// A softmax router has no bias; with speed 0 a bias stays. The loads of the next step count from zero.
TEST(Router, LoadsCountAnewWhereNoBiasMoves) {
  for (const Scoring scoring : {Scoring::Softmax, Scoring::Sigmoid}) {
    device::Device device(device_options());
    ParameterStore store;
    nn::Moe moe(store, "mlp",
                {.hidden_size = 3,
                 .expert_width = 2,
                 .experts = 4,
                 .shared_experts = 0,
                 .rule = {.scoring = scoring, .top_k = 2},
                 .init_std = 1});
    store.allocate(device, DType::Float32);
    store.initialize(1);
    moe.allocate(device);
    for (int step = 0; step < 2; ++step) {
      Tape tape(device);
      moe.forward(tape, tape.leaf(upload(device, Array({2, 3}, {1, 2, 3, -1, 0, 1}), DType::Float32)),
                  {.sequences = {.batch = 1, .length = 2, .documents = {}},
                   .global_sequences = 1,
                   .global_tokens = 2});
      std::int64_t routed = 0;
      for (const std::int64_t n : to_host_int(device, moe.load(), "test")) routed += n;
      EXPECT_EQ(routed, 4) << "step " << step;
      moe.update_bias(scoring == Scoring::Softmax ? 0.1 : 0);
    }
  }
}

TEST(Router, PlanSortsStably) {
  device::Device device;
  Tape tape(device);
  const Tensor indices = upload_int(device, {2, 0, 0, 2, 3, 0}, {3, 2});
  const ops::RoutingPlan plan = ops::plan_routing(tape, indices, 5);
  EXPECT_EQ(to_host_int(device, plan.offsets, "test"), (std::vector<std::int64_t>{0, 3, 3, 5, 6, 6}));
  EXPECT_EQ(to_host_int(device, plan.row_slot, "test"), (std::vector<std::int64_t>{1, 2, 5, 0, 3, 4}));
  EXPECT_EQ(to_host_int(device, plan.slot_row, "test"), (std::vector<std::int64_t>{3, 0, 1, 4, 5, 2}));
}

}  // namespace
}  // namespace strata::test
