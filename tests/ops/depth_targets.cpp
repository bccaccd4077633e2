// What the retrieval over depth promises beyond its values: a target's bits do not depend on its company,
// gradients that nobody sends or wants are left out, and the weights shown to an observer are the softmax
// over all sources.
#include <gtest/gtest.h>

#include "base/philox.h"
#include "ops/depth_attend.h"
#include "ops/depth_merge.h"
#include "reference/depth_retrieval.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using reference::Array;

constexpr std::int64_t kTokens = 23, kWidth = 21, kViews = 2, kSources = 3, kTargets = 7;

Array numbers(const std::string& name, std::vector<std::int64_t> shape, double scale, double shift = 0) {
  Array a(std::move(shape));
  const Philox random(5, name);
  for (std::int64_t i = 0; i < a.size(); ++i) a.data[i] = shift + scale * random.normal(i);
  return a;
}

// Three sources with one convolution each and seven targets on a device of its own.
class DepthTargets : public ::testing::Test {
 protected:
  device::Device device{device_options()};
  ParameterStore store;
  std::vector<ops::ConvSet> convs;
  std::vector<ops::DepthTarget> targets;
  Sequences sequences{.batch = 1, .length = kTokens, .documents = {}};

  void SetUp() override {
    const auto add = [&](const std::string& name, Dims dims) {
      return &store.add({.name = name, .dims = dims, .init = {}, .precision = Precision::Full});
    };
    for (int j = 0; j < kSources; ++j) convs.push_back({add(concat("conv", j), {kWidth, 4})});
    for (int k = 0; k < kTargets; ++k)
      targets.push_back({add(concat("query", k), {kViews, kWidth}), add(concat("norm", k), {kWidth})});
  }
  void allocate(DType compute) {
    store.allocate(device, compute);
    for (const auto& [name, found] : store.by_name()) {
      const Dims d = found.slice.dims;
      store.set(name, numbers(name, {d.numel()}, 0.5, name.starts_with("norm") ? 1 : 0).data);
    }
  }
  Array source_values(int j) const { return numbers(concat("source", j), {kTokens, kWidth}, 1); }
  std::vector<Var> sources(Tape& tape, DType type) {
    std::vector<Var> all;
    for (int j = 0; j < kSources; ++j) all.push_back(tape.leaf(upload(device, source_values(j), type)));
    return all;
  }
  std::vector<double> host(const Tensor& t) { return to_host(device, t, "test"); }
  Tensor ones(const Tensor& like, DType type) {
    Tensor t(device, like.dims(), type);
    from_host(device, t, std::vector<double>(t.numel(), 1.0));
    return t;
  }
};

TEST_F(DepthTargets, BitsDoNotDependOnTheOthers) {
  for (const DType type : {DType::Float32, DType::BFloat16}) {
    if (type == DType::Float32) allocate(type);
    Tape tape(device);
    const std::vector<Var> from = sources(tape, type);
    const auto all = ops::depth_attend(tape, from, convs, targets, sequences, kViews, 1e-6);
    for (int first = 0; first < kTargets; ++first)
      for (int last = first + 1; last <= kTargets; ++last) {
        const std::vector<ops::DepthTarget> some(targets.begin() + first, targets.begin() + last);
        const auto few = ops::depth_attend(tape, from, convs, some, sequences, kViews, 1e-6);
        for (int k = first; k < last; ++k) {
          EXPECT_TRUE(host(few[k - first].out.value) == host(all[k].out.value))
              << k << " of " << first << ".." << last;
          EXPECT_TRUE(host(few[k - first].lse.value) == host(all[k].lse.value))
              << k << " of " << first << ".." << last;
        }
      }
  }
}

TEST_F(DepthTargets, SilentTargetsGetNoGradient) {
  allocate(DType::Float64);
  Tape tape(device), alone(device);
  const std::vector<Var> from = sources(tape, DType::Float64), from_alone = sources(alone, DType::Float64);
  const auto all = ops::depth_attend(tape, from, convs, targets, sequences, kViews, 1e-6);
  tape.adopt_grad(all[2].out, ones(all[2].out.value, DType::Float64));
  tape.adopt_grad(all[4].lse, ones(all[4].lse.value, DType::Float64));
  tape.backward();
  std::map<std::string, std::vector<double>> grads;
  for (const auto& [name, found] : store.by_name()) grads[name] = host(found.grad());
  for (int k = 0; k < kTargets; ++k) {
    double norm = 0;
    for (const double g : grads[concat("query", k)]) norm += g * g;
    EXPECT_EQ(norm > 0, k == 2 || k == 4) << "target " << k;
  }

  store.zero_grads();
  const auto two =
      ops::depth_attend(alone, from_alone, convs, {targets[2], targets[4]}, sequences, kViews, 1e-6);
  alone.adopt_grad(two[0].out, ones(two[0].out.value, DType::Float64));
  alone.adopt_grad(two[1].lse, ones(two[1].lse.value, DType::Float64));
  alone.backward();
  for (const auto& [name, found] : store.by_name()) EXPECT_TRUE(host(found.grad()) == grads[name]) << name;
  for (int j = 0; j < kSources; ++j) EXPECT_TRUE(host(tape.grad(from[j])) == host(alone.grad(from_alone[j])));
}

TEST_F(DepthTargets, SourcesWithoutGradientAreLeftOut) {
  allocate(DType::Float64);
  Tape tape(device), partly(device);
  std::vector<Var> from = sources(tape, DType::Float64), some = sources(partly, DType::Float64);
  some[1] = partly.constant(some[1].value);
  std::map<std::string, std::vector<double>> grads;
  for (auto [t, v] : {std::pair(&tape, &from), std::pair(&partly, &some)}) {
    store.zero_grads();
    const auto opened = ops::depth_attend(*t, *v, convs, {targets[0]}, sequences, kViews, 1e-6);
    t->adopt_grad(opened[0].out, ones(opened[0].out.value, DType::Float64));
    t->backward();
    for (const auto& [name, found] : store.by_name()) {
      const std::vector<double> g = host(found.grad());
      const auto [it, first] = grads.try_emplace(name, g);
      EXPECT_TRUE(first || g == it->second) << name;
    }
  }
  EXPECT_TRUE(host(partly.grad(some[0])) == host(tape.grad(from[0])));
  EXPECT_TRUE(host(partly.grad(some[2])) == host(tape.grad(from[2])));
}

// In bfloat16 the gradient of a widened source keeps what a bfloat16 sum of many writers would lose.
TEST_F(DepthTargets, WidenedGradientsAreSummedInFloat) {
  allocate(DType::BFloat16);
  const auto gradient = [&](DType type, int calls) {
    store.zero_grads();
    Tape tape(device);
    Tensor wide(device, {kTokens, kWidth}, acc_of(type));
    from_host(device, wide, std::vector<double>(wide.numel(), 0.0));
    const Tensor value = upload(device, source_values(0), type);
    const Var source = tape.leaf(value, [wide] { return Grad{wide, Write::Accumulate}; });
    for (int i = 0; i < calls; ++i) {
      const auto opened =
          ops::depth_attend(tape, {source, tape.constant(upload(device, source_values(1), type))},
                            {convs[0], convs[1]}, {targets[0]}, sequences, kViews, 1e-6);
      tape.adopt_grad(opened[0].out, ones(opened[0].out.value, type));
    }
    tape.backward();
    return host(wide);
  };
  std::vector<double> once = gradient(DType::BFloat16, 1);
  const std::vector<double> often = gradient(DType::BFloat16, 300);
  for (double& g : once) g *= 300;
  EXPECT_LT(relative_error(often, once), 1e-5);
}

TEST_F(DepthTargets, WeightsAreTheSoftmaxOverAllSources) {
  allocate(DType::Float64);
  Tape tape(device);
  const std::vector<Var> from = sources(tape, DType::Float64);
  const auto opened = ops::depth_attend(tape, {from[0], from[1]}, {convs[0], convs[1]}, {targets[3]},
                                        sequences, kViews, 1e-6);
  const ops::DepthPartial running{from[2], convs[2], targets[3]};
  const ops::DepthMerged merged =
      ops::depth_merge(tape, opened[0].out, opened[0].lse, &running, {}, sequences, 1e-6);
  const Tensor weights = tape.empty({kViews, kSources, kTokens}, DType::Float64);
  tape.stream().run(kernels::DepthWeights{.logits = opened[0].logits,
                                          .lse = opened[0].lse.value,
                                          .partial_logits = merged.logits,
                                          .weights = weights});
  std::vector<Array> values;
  std::vector<std::vector<Array>> taps;
  for (int j = 0; j < kSources; ++j) {
    values.push_back(source_values(j));
    taps.push_back({Array({kWidth, 4}, host(convs[j][0]->value))});
  }
  const auto want =
      reference::depth_retrieve_views(values, Array({kViews, kWidth}, host(targets[3].query->value)),
                                      Array({kWidth}, host(targets[3].key_norm->value)), taps,
                                      {reference::DepthViews::kCausalConv, 1e-6, kTokens, {}});
  EXPECT_LT(relative_error(host(weights), want.weights.data), 1e-13);
}

TEST_F(DepthTargets, RefusesWrongShapes) {
  allocate(DType::Float64);
  Tape tape(device);
  const std::vector<Var> from = sources(tape, DType::Float64);
  const auto attend = [&](const std::vector<ops::ConvSet>& sets, Sequences s, std::int64_t views) {
    ops::depth_attend(tape, from, sets, targets, s, views, 1e-6);
  };
  EXPECT_THROW(attend({convs[0]}, sequences, kViews), Error);
  EXPECT_THROW(attend(convs, sequences, 3), Error);
  EXPECT_THROW(attend(convs, {.batch = 2, .length = kTokens, .documents = {}}, kViews), Error);
  EXPECT_THROW(ops::depth_attend(tape, from, convs, {}, sequences, kViews, 1e-6), Error);
}

}  // namespace
}  // namespace strata::test
