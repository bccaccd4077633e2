// The optimizer over several ranks: the weights of one rank, the same bits everywhere, moments divided.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/jobs.h"
#include "ranks.h"

namespace strata::test {
namespace {

constexpr int kSteps = 5;

struct Outcome {
  Numbers values, masters;
  std::vector<double> norms;
  std::int64_t moments = 0, parameters = 0;  // bytes
};

std::vector<Outcome> train(const Layout& layout) {
  std::vector<Outcome> all(layout.shape.world());
  comm::run_threads(layout.shape.world(), [&](comm::World& world) {
    Rank rank(world, layout);
    Outcome& mine = all[world.rank()];
    for (int s = 1; s <= kSteps; ++s) mine.norms.push_back(rank.step(s));
    mine.values = rank.values();
    mine.masters = rank.masters();
    mine.moments = rank.device.memory().use(device::Purpose::OptimizerState).now;
    mine.parameters = rank.device.memory().use(device::Purpose::Parameters).now;
  });
  return all;
}

Layout not_distributed(Layout layout) {
  layout.optimizer.use_distributed_optimizer = false;
  return layout;
}

std::vector<Layout> layouts(DType type) {
  const std::vector<comm::MeshShape> shapes = {{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {1, 2, 2},
                                               {1, 4, 2}, {2, 1, 1}, {2, 2, 1}, {2, 2, 2}};
  std::vector<Layout> all;
  for (const comm::MeshShape& shape : shapes) all.push_back({.shape = shape, .type = type});
  return all;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= most)) most = std::abs(a[i] - b[i]);
  return most;
}

// sqrt of the sum of squares of all names' whole gradients.
double whole_norm(const Numbers& names, int step) {
  double sum = 0;
  for (const auto& [name, values] : names)
    for (std::size_t i = 0; i < values.size(); ++i) sum += std::pow(whole_gradient(name, step, i), 2);
  return std::sqrt(sum);
}

TEST(DataParallel, WeightsAndNormOfOneRank) {
  for (const auto type : {optim::OptimizerType::AdamW, optim::OptimizerType::Sgd}) {
    const optim::OptimizerSection section{
        .type = type, .lr = 0.01, .momentum = 0.8, .weight_decay = 0.1, .clip_grad = 2};
    const Outcome one = train({.optimizer = section}).at(0);
    for (Layout layout : layouts(DType::Float64)) {
      layout.optimizer = section;
      std::set<std::string> seen;
      for (const Outcome& o : train(layout)) {
        for (const auto& [name, values] : o.masters) {
          EXPECT_LE(difference(values, one.masters.at(name)), 1e-13) << name << ", " << layout.text();
          seen.insert(name);
        }
        for (int s = 0; s < kSteps; ++s)
          EXPECT_NEAR(o.norms[s] / whole_norm(one.masters, s + 1), 1, 1e-13) << layout.text();
      }
      EXPECT_EQ(seen.size(), one.masters.size()) << layout.text();
    }
  }
}

TEST(DataParallel, EqualBitsOnAllRanksDistributedOrNot) {
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16})
    for (Layout layout : layouts(type)) {
      const std::vector<Outcome> whole = train(not_distributed(layout));
      layout.early = true;
      const std::vector<Outcome> parts = train(layout);
      Numbers values, masters;  // of whoever has them first
      for (std::size_t r = 0; r < parts.size(); ++r) {
        EXPECT_EQ(parts[r].norms, parts[0].norms) << layout.text();
        EXPECT_EQ(whole[r].norms, parts[0].norms) << layout.text();
        for (const std::vector<Outcome>* all : {&parts, &whole}) {
          for (const auto& [name, v] : (*all)[r].masters)
            EXPECT_EQ(masters.emplace(name, v).first->second, v)
                << name << " of rank " << r << ", " << layout.text();
          for (const auto& [name, v] : (*all)[r].values)
            EXPECT_EQ(values.emplace(name, v).first->second, v)
                << name << " of rank " << r << ", " << layout.text();
        }
      }
    }
}

TEST(DataParallel, MomentsAndMastersAreDivided) {
  for (const int data : {1, 2, 3, 4}) {
    const Layout layout{.shape = {.data = data}, .type = DType::BFloat16};
    const Outcome whole = train(not_distributed(layout)).at(0);
    std::int64_t masters = 0;  // beside values in bfloat16
    comm::run_threads(data, [&](comm::World& world) {
      Rank rank(world, not_distributed(layout));
      if (world.rank() == 0)
        for (const Bucket& b : rank.store.buckets()) masters += b.has_copies() ? b.master.bytes() : 0;
    });
    EXPECT_GT(masters, whole.parameters / 2);
    for (const Outcome& o : train(layout)) {
      EXPECT_EQ(o.moments * data, whole.moments);
      EXPECT_EQ(o.parameters, whole.parameters - masters + masters / data);
    }
  }
  comm::run_threads(2, [&](comm::World& world) {
    Rank rank(world, {.shape = {.data = 2, .expert = 2}});
    std::int64_t expected = 0;  // each has experts of its own
    for (const Bucket& b : rank.store.buckets())
      expected += 2 * b.master.bytes() / (b.group == ReductionGroup::Expert ? 1 : 2);
    EXPECT_EQ(rank.device.memory().use(device::Purpose::OptimizerState).now, expected);
  });
}

// A rank that updates late: the others have its part of a layer's weights once they waited for that layer.
TEST(DataParallel, ValuesAreThereOnceTheirLayerWasWaitedFor) {
  comm::run_threads(2, [](comm::World& world) {
    const comm::Mesh mesh(world, {.data = 2});
    device::Device device;
    ParameterStore store;
    for (const int layer : {0, 1}) {
      store.begin_layer(layer);
      store.add({.name = concat("layer", layer), .dims = {64}, .init = Init::constant(1)});
    }
    const optim::ReductionGroups groups{.data = &mesh.data(), .all = &mesh.all()};
    Shards shards = groups.shards();
    shards.bucket_size = 1;
    store.allocate(device, DType::Float64, true, shards);
    store.initialize(1);
    ASSERT_EQ(store.buckets().size(), 2u);
    const optim::OptimizerSection sgd{
        .type = optim::OptimizerType::Sgd, .lr = 1, .momentum = 0, .weight_decay = 0};
    optim::Optimizer optimizer(sgd, device, store, groups);
    for (Bucket& b : store.buckets()) device.compute().run(kernels::Fill{.y = b.grad, .value = 0.5});
    optimizer.reduce_gradients();
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    optimizer.step(1, 1);
    for (const int layer : {0, 1}) {
      optimizer.wait_for_values(layer);
      EXPECT_EQ(to_host(device, store.buckets()[layer].value, "test"), std::vector<double>(64, 0.0)) << layer;
    }
  });
}

TEST(DataParallel, ASumBeginsOnce) {
  const Layout layout{.shape = {.data = 2}};
  EXPECT_THROW(comm::run_threads(2,
                                 [&](comm::World& world) {
                                   Rank rank(world, layout);
                                   rank.optimizer->reduction().begin(0);
                                   rank.optimizer->reduction().begin(0);
                                 }),
               Error);
}

TEST(DataParallel, HoldersHaveOneLayout) {
  const Layout layout{.shape = {.pipeline = 2}};
  try {
    comm::run_threads(2, [&](comm::World& world) { Rank rank(world, layout, 29 - world.rank()); });
    FAIL() << "two sizes";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("conv [28]"), std::string::npos) << e.what();
  }
}

// ---- what checkpoints see ----

// Puts a rank's pieces where they belong; every element comes from exactly one rank.
void join(Numbers& all, Rank& rank, const std::vector<optim::StatePiece>& pieces) {
  for (const optim::StatePiece& p : pieces) {
    const std::vector<double> values = to_host(rank.device, p.values, "test");
    std::vector<double>& whole = all[p.name];
    whole.resize(p.dims.numel(), NAN);
    for (std::int64_t k = 0; k < p.count; ++k) {
      EXPECT_TRUE(std::isnan(whole.at(p.offset + k))) << p.name;
      whole[p.offset + k] = values.at(k);
    }
  }
}

// Sets all moments, or trains if there are none; returns the pieces of all ranks together.
Numbers moments_of(const Layout& layout, const Numbers& from) {
  Numbers all;
  std::mutex mutex;
  comm::run_threads(layout.shape.world(), [&](comm::World& world) {
    Rank rank(world, layout);
    for (int s = 1; from.empty() && s <= 3; ++s) rank.step(s);
    for (const auto& [name, values] : from) {  // in two pieces
      const std::int64_t middle = std::int64_t(values.size()) * 2 / 5;
      rank.optimizer->set_moment(name, {values.begin(), values.begin() + middle});
      rank.optimizer->set_moment(name, {values.begin() + middle, values.end()}, middle);
    }
    const std::lock_guard lock(mutex);
    join(all, rank, rank.optimizer->pieces());
  });
  return all;
}

TEST(DataParallel, MomentsGoFromLayoutToLayout) {
  for (const DType type : {DType::Float64, DType::BFloat16}) {
    const Numbers two = moments_of({.shape = {.data = 2}, .type = type}, {});
    EXPECT_EQ(two.size(), 2 * 13);
    EXPECT_NE(two.at("exp_avg_sq.head").at(1700), 0);
    const Numbers one = moments_of({.type = type}, two);
    EXPECT_EQ(one, two);
    for (const comm::MeshShape& shape : std::vector<comm::MeshShape>{{1, 3, 1}, {1, 4, 2}, {2, 2, 1}})
      EXPECT_EQ(moments_of({.shape = shape, .type = type}, one), two);
    EXPECT_EQ(moments_of(not_distributed({.shape = {.data = 2}, .type = type}), one), two);
  }
}

TEST(DataParallel, StateIsOfWholeMomentsOnly) {
  comm::run_threads(2, [&](comm::World& world) {
    Rank whole(world, not_distributed({.shape = {.data = 2}}));
    whole.step(1);
    EXPECT_EQ(whole.optimizer->state().size(), 2 * 13u);
    Rank parts(world, {.shape = {.data = 2}});
    EXPECT_THROW(parts.optimizer->state(), Error);
    EXPECT_THROW(parts.optimizer->set_moment("exp_avg.gate", {1, 2}, 2), Error) << "past its end";
    parts.optimizer->set_moment("exp_avg.nobody", {1, 2});
  });
}

// Pieces of all ranks put together are the whole masters, and the whole moments of ranks that are not
// distributed.
TEST(DataParallel, PiecesCoverEveryTensorOnce) {
  for (Layout layout : layouts(DType::BFloat16)) {
    Numbers moments;
    for (const bool distributed : {false, true}) {
      layout.optimizer.use_distributed_optimizer = distributed;
      Numbers masters, copies;
      std::mutex mutex;
      comm::run_threads(layout.shape.world(), [&](comm::World& world) {
        Rank rank(world, layout);
        rank.step(1);
        const Numbers whole = rank.masters();
        const std::lock_guard lock(mutex);
        masters.insert(whole.begin(), whole.end());
        if (!distributed) moments.merge(rank.host(rank.optimizer->state()));
        join(copies, rank, rank.optimizer->pieces());
        join(copies, rank, optim::weight_pieces(rank.store, rank.groups));
      });
      masters.insert(moments.begin(), moments.end());
      EXPECT_EQ(copies, masters) << layout.text();
    }
  }
}

}  // namespace
}  // namespace strata::test
