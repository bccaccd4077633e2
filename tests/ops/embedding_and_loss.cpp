#include <gtest/gtest.h>

#include "ops/embedding.h"
#include "ops/head_loss.h"
#include "reference/cross_entropy.h"
#include "reference/embedding.h"
#include "reference/linear.h"
#include "support/op_case.h"

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
  HeadLossCase(std::int64_t t, std::int64_t v, std::int64_t d) : T(t), V(v), D(d) {}
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
TEST(HeadLoss, SeveralChunks) {
  HeadLossCase c(9, 1 << 20, 2);  // four tokens at a time
  c.bfloat16 = false;
  c.difference_tolerance = 1e-3;  // differences of a sum over a million logits
  check_op(c);
}
TEST(HeadLoss, NothingCounted) {
  HeadLossCase c(6, 5, 4);
  c.counted = false;
  check_op(c);
}

}  // namespace
}  // namespace strata::test
