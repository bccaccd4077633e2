// Optimizer kernels, several steps against the reference; which buckets decay, clipping, and the global norm.
#include "reference/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "kernels/jobs.h"
#include "optim/optimizer.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using reference::Array;

constexpr std::int64_t kWeights = 20011;  // more than one chunk
constexpr double kScale = 0.37;           // of the gradient, by clipping

Array random(std::string_view name, double scale) {
  Array a({kWeights});
  const Philox numbers(11, name);
  for (std::int64_t i = 0; i < kWeights; ++i) a.data[i] = double(float(scale * numbers.normal(i)));
  return a;
}

Array scaled(Array a, double factor) {
  for (double& v : a.data) v *= factor;
  return a;
}

// Master, gradient and the copy that kernels read; the copy exists beside float32 masters only.
struct Bucket {
  explicit Bucket(DType type) : device(device_options()), master(upload(device, random("w", 1), type)) {
    if (type == DType::Float32) value = Tensor(device, {kWeights}, DType::BFloat16);
  }
  Tensor zeros() {
    const Tensor t(device, {kWeights}, master.dtype());
    device.compute().run(kernels::Fill{.y = t, .value = 0});
    return t;
  }
  std::vector<double> host(const Tensor& t) { return to_host(device, t, "test"); }
  void check(const std::string& what, const Tensor& t, const Array& expected) {
    const double tolerance = master.dtype() == DType::Float64 ? 1e-14 : 2e-6;
    EXPECT_LE(relative_error(host(t), expected.data), tolerance) << what << ", " << name_of(master.dtype());
  }
  void check_value() {
    if (!value.defined()) return;
    std::vector<double> expected = host(master);
    for (double& v : expected) v = double(float(bfloat16(float(v))));
    EXPECT_EQ(host(value), expected) << "the copy in bfloat16";
  }

  device::Device device;
  Tensor master, value;
};

void check_adamw(DType type, double weight_decay) {
  Bucket bucket(type);
  const Tensor m = bucket.zeros(), v = bucket.zeros();
  Array weight = random("w", 1), first({kWeights}), second({kWeights});
  const reference::AdamWSpec spec{
      .lr = 3e-2, .beta1 = 0.8, .beta2 = 0.97, .eps = 1e-6, .weight_decay = weight_decay};
  for (int step = 1; step <= 3; ++step) {
    const Array grad = random("gradient" + std::to_string(step), 0.1);
    reference::adamw_step(spec, step, scaled(grad, kScale), weight, first, second);
    bucket.device.compute().run(kernels::AdamW{.master = bucket.master,
                                               .m = m,
                                               .v = v,
                                               .grad = upload(bucket.device, grad, type),
                                               .value = bucket.value,
                                               .lr = spec.lr,
                                               .beta1 = spec.beta1,
                                               .beta2 = spec.beta2,
                                               .eps = spec.eps,
                                               .weight_decay = weight_decay,
                                               .correction1 = 1 - std::pow(spec.beta1, step),
                                               .correction2 = 1 - std::pow(spec.beta2, step),
                                               .grad_scale = kScale});
  }
  bucket.check("weight", bucket.master, weight);
  bucket.check("first moment", m, first);
  bucket.check("second moment", v, second);
  bucket.check_value();
}

void check_sgd(DType type, double momentum) {
  Bucket bucket(type);
  const Tensor buffer = momentum != 0 ? bucket.zeros() : Tensor();
  Array weight = random("w", 1), expected_buffer({kWeights});
  const reference::SgdSpec spec{.lr = 0.1, .momentum = momentum, .weight_decay = 0.3};
  for (int step = 1; step <= 3; ++step) {
    const Array grad = random("gradient" + std::to_string(step), 1);
    reference::sgd_step(spec, scaled(grad, kScale), weight, expected_buffer);
    bucket.device.compute().run(kernels::Sgd{.master = bucket.master,
                                             .momentum_buffer = buffer,
                                             .grad = upload(bucket.device, grad, type),
                                             .value = bucket.value,
                                             .lr = spec.lr,
                                             .momentum = momentum,
                                             .weight_decay = spec.weight_decay,
                                             .grad_scale = kScale});
  }
  bucket.check("weight", bucket.master, weight);
  if (buffer.defined()) bucket.check("momentum", buffer, expected_buffer);
  bucket.check_value();
}

TEST(AdamW, WithDecay) {
  check_adamw(DType::Float64, 0.2);
  check_adamw(DType::Float32, 0.2);
}
TEST(AdamW, WithoutDecay) { check_adamw(DType::Float64, 0); }
TEST(Sgd, WithMomentum) {
  check_sgd(DType::Float64, 0.9);
  check_sgd(DType::Float32, 0.9);
}
TEST(Sgd, WithoutMomentum) {
  check_sgd(DType::Float64, 0);
  check_sgd(DType::Float32, 0);
}

// Three buckets of one parameter each, all values 2: the second does not decay, the third is an expert's.
struct Buckets {
  Buckets() : device(device_options()) {
    store.add({.name = "decays", .dims = {3}, .init = Init::constant(2)});
    store.add({.name = "stays", .dims = {5}, .init = Init::constant(2), .decay = Decay::No});
    store.add({.name = "expert", .dims = {7}, .init = Init::constant(2), .group = ReductionGroup::Expert});
    store.allocate(device, DType::Float64);
    store.initialize(1);
  }
  void set_grad(const std::string& name, const std::vector<double>& values) {
    from_host(device, store.by_name().at(name).grad(), values);
  }
  double first(const std::string& name) {
    return to_host(device, store.by_name().at(name).master(), "test").at(0);
  }

  device::Device device;
  ParameterStore store;
};

TEST(Optimizer, OnlyBucketsThatDecayShrink) {
  for (const auto type : {optim::OptimizerType::AdamW, optim::OptimizerType::Sgd}) {
    Buckets b;
    optim::Optimizer optimizer({.type = type, .weight_decay = 0.25}, b.device, b.store);
    optimizer.step(0.5, 1);  // the gradients are zero
    EXPECT_DOUBLE_EQ(b.first("decays"), 2 - 0.5 * 0.25 * 2) << name_of(type);
    EXPECT_DOUBLE_EQ(b.first("expert"), 2 - 0.5 * 0.25 * 2) << name_of(type);
    EXPECT_EQ(b.first("stays"), 2) << name_of(type);
  }
}

TEST(Optimizer, SgdKeepsItsVelocity) {
  for (const double momentum : {0.0, 0.5}) {
    Buckets b;
    optim::Optimizer optimizer({.type = optim::OptimizerType::Sgd, .momentum = momentum, .weight_decay = 0},
                               b.device, b.store);
    for (const char* name : {"decays", "stays", "expert"})
      b.set_grad(name, std::vector<double>(b.store.by_name().at(name).grad().numel(), 1.0));
    optimizer.step(0.25, 1);
    optimizer.step(0.25, 1);
    for (const char* name : {"decays", "stays", "expert"})
      EXPECT_DOUBLE_EQ(b.first(name), 2 - 0.25 * (1 + 1 + momentum)) << name << ", momentum " << momentum;
  }
}

TEST(Optimizer, GlobalNormCountsEveryParameterOnce) {
  Buckets b;
  b.set_grad("decays", {1, 2, 0});
  b.set_grad("stays", {0, 0, 0, 0, -4});
  b.set_grad("expert", {2, 0, 0, 0, 0, 0, 0});
  EXPECT_DOUBLE_EQ(optim::global_norm(b.device, b.store), 5);
}

TEST(Optimizer, ClippingNeverScalesUp) {
  EXPECT_EQ(optim::clip_scale(0.5, 2), 1);
  EXPECT_EQ(optim::clip_scale(0, 2), 1);
  EXPECT_DOUBLE_EQ(optim::clip_scale(8, 2), 2 / (8 + 1e-6));
  EXPECT_EQ(optim::clip_scale(1e9, 0), 1) << "clipping is off";
}

}  // namespace
}  // namespace strata::test
