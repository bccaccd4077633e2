#include <gtest/gtest.h>

#include "ops/embedding.h"
#include "ops/head_loss.h"
#include "reference/cross_entropy.h"
#include "reference/embedding.h"
#include "reference/linear.h"
#include "support/op_case.h"
#include "support/test_device.h"

namespace strata::test {
namespace {

using reference::Array;

struct EmbeddingCase final : OpCase {
  std::int64_t T, V, D;
  EmbeddingCase(std::int64_t t, std::int64_t v, std::int64_t d) : T(t), V(v), D(d) {}
  std::vector<std::int64_t> ids() const {
    std::vector<std::int64_t> all;
    for (std::int64_t t = 0; t < T; ++t) all.push_back((t * t + 3) % V);
    return all;
  }
  std::vector<OpInput> inputs() const override { return {{"weight", {V, D}, OpInput::Weight}}; }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    return {ops::embedding(tape, upload_int(tape.device(), ids(), {T}), args.weight("weight"))};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    return {reference::embedding(ids(), in.at("weight"))};
  }
};

TEST(Embedding, RepeatedIds) { check_op(EmbeddingCase(37, 11, 13)); }
TEST(Embedding, OneToken) { check_op(EmbeddingCase(1, 5, 3)); }

struct HeadLossCase final : OpCase {
  std::int64_t T, V, D;
  bool counted = true;
  HeadLossCase(std::int64_t t, std::int64_t v, std::int64_t d) : T(t), V(v), D(d) {
    computed_in_backward = true;
  }
  std::vector<std::int64_t> labels() const {
    std::vector<std::int64_t> all;
    for (std::int64_t t = 0; t < T; ++t) all.push_back(counted && t % 4 != 1 ? (t * 7 + 2) % V : -100);
    return all;
  }
  double scale() const { return 1.0 / double(T); }
  std::vector<OpInput> inputs() const override {
    return {{"x", {T, D}}, {"weight", {V, D}, OpInput::Weight, 0.5}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& args) const override {
    const ops::HeadLoss l = ops::head_loss(tape, args.var("x"), args.weight("weight"),
                                           upload_int(tape.device(), labels(), {T}), scale());
    return {l.loss};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const auto ce = reference::cross_entropy(reference::linear(in.at("x"), in.at("weight")), labels());
    double sum = 0;
    for (const double l : ce.token_loss.data) sum += l;
    return {Array({1}, {sum * scale()})};
  }
};

TEST(HeadLoss, OneChunk) { check_op(HeadLossCase(19, 23, 7)); }
TEST(HeadLoss, OneToken) { check_op(HeadLossCase(1, 3, 2)); }

// What a run leaves behind.
struct HeadRun {
  double loss;
  std::vector<double> token_loss, dx, dweight;
};

HeadRun run_head(const Array& x, const Array& weight, const std::vector<std::int64_t>& labels, Weights when) {
  device::Device device(device_options());
  ParameterStore store;
  Parameter& w = store.add({.name = "w", .dims = {weight.dim(0), weight.dim(1)}, .init = {}});
  store.allocate(device, DType::Float64);
  store.set("w", weight.data);
  Tape tape(device);
  const Var v = tape.leaf(upload(device, x, DType::Float64));
  const ops::HeadLoss l = ops::head_loss(tape, v, w, upload_int(device, labels, {x.dim(0)}), 0.5);
  tape.seed(l.loss, 1);
  tape.backward(when);
  EXPECT_TRUE(tape.take_weight_work().empty()) << "to postpone it costs the logits again";
  return {to_host(device, l.loss.value, "test")[0], to_host(device, l.token_loss, "test"),
          to_host(device, tape.grad(v), "test"), to_host(device, w.grad, "test")};
}

// A vocabulary of a million makes chunks of four tokens: all at once must be the tokens one by one.
TEST(HeadLoss, ChunksAreTheTokensOneByOne) {
  const std::int64_t T = 9, V = (1 << 20) - 3, D = 2;
  Array x({T, D}), weight({V, D});
  for (std::int64_t i = 0; i < T * D; ++i) x.data[i] = double(i % 7) / 4 - 0.75;
  for (std::int64_t i = 0; i < V * D; ++i) weight.data[i] = double(i * i % 101) / 40 - 1.25;
  const std::vector<std::int64_t> labels{5, V - 1, -100, 0, 7, -100, 123456, 9, V - 2};
  const HeadRun all = run_head(x, weight, labels, Weights::Now);
  HeadRun sum{0, {}, {}, std::vector<double>(V * D, 0.0)};
  for (std::int64_t t = 0; t < T; ++t) {
    const HeadRun one = run_head(Array({1, D}, {x(t, 0), x(t, 1)}), weight, {labels[t]}, Weights::Now);
    sum.loss += one.loss;
    sum.token_loss.push_back(one.token_loss[0]);
    sum.dx.insert(sum.dx.end(), one.dx.begin(), one.dx.end());
    for (std::int64_t i = 0; i < V * D; ++i) sum.dweight[i] += one.dweight[i];
  }
  EXPECT_NEAR(all.loss, sum.loss, 1e-12 * sum.loss);
  EXPECT_LE(relative_error(all.token_loss, sum.token_loss), 1e-12);
  EXPECT_LE(relative_error(all.dx, sum.dx), 1e-10);
  EXPECT_LE(relative_error(all.dweight, sum.dweight), 1e-10);
  const HeadRun later = run_head(x, weight, labels, Weights::Later);
  EXPECT_TRUE(later.dx == all.dx && later.dweight == all.dweight) << "weight gradients later";
}

// Whoever wants gradients: neither, of x alone, of the weight alone, both. Three chunks.
TEST(HeadLoss, BackwardLeavesTheBitsOfATapeThatDoesNotRecord) {
  const std::int64_t T = 9, V = (1 << 20) - 3, D = 2;
  device::Device device(device_options());
  const Array x = normal({T, D}, DType::Float32, 1, "x"), w = normal({V, D}, DType::Float32, 1, "w");
  const Tensor labels = upload_int(device, {5, V - 1, -100, 0, 7, -100, 123456, 9, V - 2}, {T});
  for (const bool trained : {false, true}) {
    ParameterStore store;
    Parameter& weight = store.add({.name = "w", .dims = {V, D}, .init = {}});
    store.allocate(device, DType::Float32, trained);
    store.set("w", w.data);
    Tape plain(device, {.recording = false, .recompute = {}, .observer = nullptr});
    const Tensor value = upload(device, x, DType::Float32);
    const ops::HeadLoss want = ops::head_loss(plain, plain.constant(value), weight, labels, 0.25);
    EXPECT_GT(to_host(device, want.loss.value, "test")[0], 0);
    for (const bool leaf : {false, true}) {
      Tape tape(device);
      const Var v = leaf ? tape.leaf(value) : tape.constant(value);
      const ops::HeadLoss got = ops::head_loss(tape, v, weight, labels, 0.25);
      tape.seed(got.loss, 0);  // of no weight in what is minimised, and told all the same
      tape.backward();
      EXPECT_EQ(to_host(device, got.loss.value, "test"), to_host(device, want.loss.value, "test"));
      EXPECT_EQ(to_host(device, got.token_loss, "test"), to_host(device, want.token_loss, "test"));
    }
  }
}

TEST(HeadLoss, NothingCounted) {
  HeadLossCase c(6, 5, 4);
  c.counted = false;
  check_op(c);
}

}  // namespace
}  // namespace strata::test
