#include "ops/dispatch.h"

#include <gtest/gtest.h>

#include "autograd/recompute.h"
#include "comm/partial.h"
#include "nn/moe.h"
#include "ops/add.h"
#include "ops/rows.h"
#include "support/op_case.h"
#include "support/ranks.h"

namespace strata::test {
namespace {

using reference::Array;
constexpr std::int64_t K = 2, E = 6, D = 3;

// Tokens of each rank, and the experts they choose.
struct Traffic {
  std::vector<std::int64_t> tokens;
  std::function<std::int64_t(std::int64_t rank, std::int64_t t, std::int64_t k)> choice;
  int ranks() const { return int(tokens.size()); }
};

double value(std::int64_t rank, std::int64_t t, std::int64_t d) {
  return double(100 * rank + t) + 0.25 * double(d);
}

struct Outcome {
  std::vector<double> arrived, y, dx;
  std::vector<std::int64_t> offsets;
};

// Every row is doubled at its expert, and comes back to be added to its token.
Outcome send_round(const Traffic& traffic, comm::Communicator& ranks) {
  const std::int64_t rank = ranks.rank(), T = traffic.tokens[rank];
  Array x({T, D}), ones({T, K});
  std::vector<std::int64_t> indices;
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t d = 0; d < D; ++d) x(t, d) = value(rank, t, d);
    for (std::int64_t k = 0; k < K; ++k) indices.push_back(traffic.choice(rank, t, k)), ones(t, k) = 1;
  }
  device::Device device(open_device_options());
  Tape tape(device);
  const Var leaf = tape.leaf(upload(device, x, DType::Float64));
  const ops::RoutingPlan plan = ops::plan_routing(tape, upload_int(device, indices, {T, K}), E);
  const Var rows = ops::gather_rows(tape, leaf, plan);
  const ops::DispatchPlan dispatch = ops::plan_dispatch(tape, plan, ranks);
  const ops::InFlight there = ops::dispatch_begin(tape, rows, dispatch, "rows");
  const Var arrived = ops::dispatch_end(tape, there, dispatch);
  const Var done = ops::add(tape, arrived, arrived);
  const ops::InFlight back = ops::combine_begin(tape, done, dispatch, "rows");
  const Var home = ops::combine_end(tape, back);
  const Var gates = tape.constant(upload(device, ones, DType::Float64));
  const Var y = ops::combine_rows(tape, home, gates, plan);
  Outcome o{to_host(device, arrived.value, "test"),
            to_host(device, y.value, "test"),
            {},
            to_host_int(device, dispatch.arrived.offsets, "test")};
  tape.adopt_grad(y, upload(device, x, DType::Float64));  // dy = x
  tape.backward();
  o.dx = to_host(device, tape.grad(leaf), "test");
  return o;
}

void expect_rows_at_their_experts(const Traffic& traffic) {
  std::vector<Outcome> out(traffic.ranks());
  on_ranks(traffic.ranks(), [&](comm::Communicator& c) { out[c.rank()] = send_round(traffic, c); });
  const std::int64_t here = E / traffic.ranks();
  for (int owner = 0; owner < traffic.ranks(); ++owner) {
    std::vector<double> arrived, twice;
    std::vector<std::int64_t> offsets{0};
    for (std::int64_t e = owner * here; e < (owner + 1) * here; ++e) {
      for (std::int64_t r = 0; r < traffic.ranks(); ++r)
        for (std::int64_t t = 0; t < traffic.tokens[r]; ++t)
          for (std::int64_t k = 0; k < K; ++k)
            if (traffic.choice(r, t, k) == e)
              for (std::int64_t d = 0; d < D; ++d) arrived.push_back(value(r, t, d));
      offsets.push_back(std::int64_t(arrived.size()) / D);
    }
    for (std::int64_t t = 0; t < traffic.tokens[owner]; ++t)
      for (std::int64_t d = 0; d < D; ++d) twice.push_back(2 * K * value(owner, t, d));
    EXPECT_EQ(out[owner].arrived, arrived) << "rank " << owner;
    EXPECT_EQ(out[owner].offsets, offsets) << "rank " << owner;
    EXPECT_EQ(out[owner].y, twice) << "rank " << owner;
    EXPECT_EQ(out[owner].dx, twice) << "rank " << owner;
  }
}

std::int64_t spread(std::int64_t rank, std::int64_t t, std::int64_t k) { return (rank + t * t + 2 * k) % E; }

TEST(Dispatch, RowsReachTheirExpertsAndReturn) {
  expect_rows_at_their_experts({{5}, spread});
  expect_rows_at_their_experts({{4, 7}, spread});
  expect_rows_at_their_experts({{9, 1, 6}, spread});
  expect_rows_at_their_experts({{1, 1, 1, 1, 1, 1}, spread});
}
TEST(Dispatch, ARankWithoutTokensTakesPart) {
  expect_rows_at_their_experts({{0, 7}, spread});
  expect_rows_at_their_experts({{3, 0, 0}, spread});
  expect_rows_at_their_experts({{0, 0}, spread});
}
TEST(Dispatch, AllRowsGoToOneRank) {
  expect_rows_at_their_experts({{6, 3, 8}, [](auto, auto t, auto k) { return 2 + (t + k) % 2; }});
  expect_rows_at_their_experts({{2, 5}, [](auto rank, auto, auto k) { return 4 - 3 * rank + k; }});
}

TEST(Dispatch, ExpertsThatDoNotDivideAreRefused) {
  EXPECT_THROW(expect_rows_at_their_experts({{1, 1, 1, 1}, spread}), Error);
}

// What a plan of the memory sees: every expert has the same.
TEST(Dispatch, ADryDeviceHasAnEvenLoad) {
  on_ranks(3, [&](comm::Communicator& ranks) {
    device::Device device({.mode = device::StreamMode::Dry, .guard = false, .fill_nan = false, .seed = 0});
    Tape tape(device);
    const ops::RoutingPlan plan = ops::plan_routing(tape, tape.empty({9, K}, DType::Int32), E);
    const ops::DispatchPlan dispatch = ops::plan_dispatch(tape, plan, ranks);
    const std::vector<std::int64_t> even{6, 6, 6};
    if (dispatch.send != even || dispatch.receive != even) throw Error("the load is not even");
  });
}

// One of six ranks, dry: rows of 12 TB are there for a layer's tokens, addresses for six times as many are
// not.
void receive_rows_of(std::int64_t experts) {
  constexpr std::int64_t kTokens = 1 << 18, kWidth = 6'000'000;
  comm::run_threads(1, [&](comm::World& here) {
    const auto world = comm::partial_world(here, {0}, 6);
    const auto ranks = world->group("expert", {0, 1, 2, 3, 4, 5});
    device::Device device({.mode = device::StreamMode::Dry, .guard = false, .fill_nan = false, .seed = 0});
    ParameterStore store;
    nn::Moe moe(store, "model.layers.3.mlp",
                {.hidden_size = kWidth,
                 .expert_width = 1,
                 .experts = E,
                 .rule = {.scoring = kernels::Scoring::Sigmoid, .top_k = 1},
                 .init_std = 1},
                ranks.get());
    store.allocate(device, DType::Float64);
    moe.allocate(device);
    moe.suppose_experts(experts);
    const nn::Context context{.sequences = {.batch = 1, .length = kTokens, .documents = {}},
                              .global_sequences = 6,
                              .global_tokens = 6 * kTokens,
                              .micro_batch = 2};
    Tape tape(device);
    moe.forward(tape, tape.constant(tape.empty({kTokens, kWidth}, DType::Float64)), context);
  });
}

TEST(Dispatch, RowsThatDoNotFitAreNamed) {
  EXPECT_NO_THROW(receive_rows_of(E));
  try {
    receive_rows_of(1);
    FAIL() << "fits";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("rank 0: out of memory: ")) << text;
    EXPECT_TRUE(
        text.ends_with("rank 0 received 1572864 rows for its experts of model.layers.3.mlp in "
                       "micro-batch 2, 262144 if they were spread evenly"))
        << text;
  }
}

// Recomputed or not, a layer asks for the counts once.
TEST(Dispatch, CountsAreReadBackOnce) {
  for (const bool again : {false, true})
    on_ranks(2, [&](comm::Communicator& ranks) {
      device::Device device(open_device_options());
      ParameterStore store;
      nn::Moe moe(store, "mlp",
                  {.hidden_size = D,
                   .expert_width = 2,
                   .experts = E,
                   .shared_experts = 1,
                   .rule = {.scoring = kernels::Scoring::Sigmoid, .top_k = K},
                   .init_std = 1},
                  &ranks);
      store.allocate(device, DType::Float64);
      store.initialize(1);
      store.zero_grads();
      moe.allocate(device);
      const nn::Context context{
          .sequences = {.batch = 1, .length = 4, .documents = {}}, .global_sequences = 2, .global_tokens = 8};
      Tape tape(device);
      const Var x = tape.leaf(upload(device, normal({4, D}, DType::Float64, 1, "x"), DType::Float64));
      const auto body = [&](Tape& t, const std::vector<Var>& in) -> std::vector<Var> {
        return {moe.forward(t, in[0], context).y};
      };
      const Var y = again ? recompute(tape, {x}, body)[0] : body(tape, {x})[0];
      tape.seed(y, 1);
      tape.backward();
      const auto& counted = device.read_backs();
      if (counted.at("expert counts") != 1) throw Error("counts were read back again");
    });
}

}  // namespace
}  // namespace strata::test
