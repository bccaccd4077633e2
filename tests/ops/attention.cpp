// Attention with latent and with grouped keys: several sequences, one token, sequences longer than a block
// and than a task, odd widths, documents with contiguous and with recurring ids.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include "ops/documents.h"
#include "reference/attention.h"

namespace strata::test {
namespace {

using reference::Array;
using reference::Ids;

Array heads_of(const Array& x, std::int64_t heads, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = x.dim(1) / heads;
  Array y({x.dim(0), heads, end - begin});
  for (std::int64_t t = 0; t < x.dim(0); ++t)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = begin; i < end; ++i) y(t, h, i - begin) = x(t, h * width + i);
  return y;
}

// Runs of `run` tokens with ids 0, 1, .. `period` - 1, 0, 1, ..: a document may stop and go on later.
Ids recurring(std::int64_t tokens, std::int64_t run, std::int64_t period) {
  Ids ids(tokens);
  for (std::int64_t t = 0; t < tokens; ++t) ids[t] = t / run % period;
  return ids;
}

struct AttentionCase : OpCase {
  std::int64_t batch, length;
  Ids documents;

  AttentionCase(std::int64_t batch_, std::int64_t length_, Ids documents_)
      : batch(batch_), length(length_), documents(std::move(documents_)) {
    releases = Recompute::Attention;
  }
  std::int64_t tokens() const { return batch * length; }
};

struct MlaCase : AttentionCase {
  ops::MlaHeads dims;
  double scale = 0.4;

  MlaCase(ops::MlaHeads dims_, std::int64_t batch_, std::int64_t length_, Ids documents_ = {})
      : AttentionCase(batch_, length_, std::move(documents_)), dims(dims_) {}
  std::vector<OpInput> inputs() const override {
    return {{"q", {tokens(), dims.heads * (dims.nope + dims.rope)}},
            {"kv", {tokens(), dims.heads * (dims.nope + dims.value)}},
            {"k_rope", {tokens(), dims.rope}}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& in) const override {
    const Sequences s = make_sequences(tape, batch, length, documents);
    return {ops::mla_attention(tape, in.var("q"), in.var("kv"), in.var("k_rope"), dims, s, scale)};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const Array& kv = in.at("kv");
    const std::int64_t H = dims.heads, both = dims.nope + dims.value;
    return {reference::attention(heads_of(in.at("q"), H, 0, dims.nope + dims.rope),
                                 heads_of(kv, H, 0, dims.nope), in.at("k_rope"),
                                 heads_of(kv, H, dims.nope, both), scale, length, documents)
                .out.reshaped({tokens(), H * dims.value})};
  }
};

struct GqaCase : AttentionCase {
  ops::GqaHeads dims;

  GqaCase(ops::GqaHeads dims_, std::int64_t batch_, std::int64_t length_, Ids documents_ = {})
      : AttentionCase(batch_, length_, std::move(documents_)), dims(dims_) {}
  std::vector<OpInput> inputs() const override {
    return {{"q", {tokens(), dims.heads * dims.dim}},
            {"k", {tokens(), dims.key_heads * dims.dim}},
            {"v", {tokens(), dims.key_heads * dims.dim}}};
  }
  std::vector<Var> run(Tape& tape, const OpArgs& in) const override {
    const Sequences s = make_sequences(tape, batch, length, documents);
    return {ops::gqa_attention(tape, in.var("q"), in.var("k"), in.var("v"), dims, s, 0.5)};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const auto heads = [&](const char* name, std::int64_t n) {
      return heads_of(in.at(name), n, 0, dims.dim);
    };
    return {reference::attention(heads("q", dims.heads), heads("k", dims.key_heads), {},
                                 heads("v", dims.key_heads), 0.5, length, documents)
                .out.reshaped({tokens(), dims.heads * dims.dim})};
  }
};

TEST(MlaAttention, OneToken) {
  MlaCase op({2, 3, 2, 5}, 1, 1);
  op.float32_tolerance = 1e-3;  // the gradients of q and of the keys are zero but for rounding
  check_op(op);
}
TEST(MlaAttention, OddWidths) { check_op(MlaCase({3, 5, 4, 7}, 2, 13)); }
TEST(MlaAttention, WholeVectors) { check_op(MlaCase({1, 8, 8, 16}, 1, 64)); }
TEST(MlaAttention, SeveralBlocks) { check_op(MlaCase({2, 3, 2, 5}, 1, 131)); }
TEST(MlaAttention, Documents) { check_op(MlaCase({2, 3, 2, 3}, 2, 67, recurring(134, 9, 100))); }
TEST(MlaAttention, RecurringDocuments) { check_op(MlaCase({1, 3, 2, 3}, 2, 131, recurring(262, 5, 3))); }
TEST(MlaAttention, BlocksOfOneDocument) { check_op(MlaCase({1, 2, 2, 2}, 1, 200, recurring(200, 64, 2))); }

TEST(GqaAttention, OneKeyHead) { check_op(GqaCase({3, 1, 5}, 2, 17)); }
TEST(GqaAttention, TwoKeyHeads) { check_op(GqaCase({4, 2, 3}, 1, 71)); }
TEST(GqaAttention, OwnKeys) { check_op(GqaCase({2, 2, 8}, 3, 5)); }
// Eight query heads a key head: a task has one block of queries.
TEST(GqaAttention, SeveralTasks) { check_op(GqaCase({8, 1, 2}, 1, 131)); }
TEST(GqaAttention, Documents) { check_op(GqaCase({2, 1, 3}, 1, 97, recurring(97, 20, 2))); }

// A task of latent attention has 512 queries: too long for finite differences, so forward only.
TEST(MlaAttention, TasksOfOneHead) {
  const MlaCase op({1, 2, 2, 2}, 1, 1100, recurring(1100, 300, 2));
  device::Device device;
  Tape tape(device);
  Arrays arrays;
  std::map<std::string, Var> vars;
  for (const OpInput& in : op.inputs()) {
    Array a(in.shape);
    for (std::int64_t i = 0; i < a.size(); ++i) a.data[i] = std::sin(double(i * i % 1009));
    vars[in.name] = tape.constant(upload(device, a, DType::Float64));
    arrays[in.name] = std::move(a);
  }
  const Sequences s = make_sequences(tape, 1, 1100, op.documents);
  const Var y = ops::mla_attention(tape, vars["q"], vars["kv"], vars["k_rope"], op.dims, s, op.scale);
  EXPECT_LT(relative_error(to_host(device, y.value, "test"), op.reference(arrays)[0].data), 1e-12);
}

// Scores far apart, and far from zero, neither overflow nor lose the small ones.
TEST(MlaAttention, LargeScores) {
  MlaCase op({1, 3, 2, 3}, 1, 70);
  op.scale = 40;
  op.difference_tolerance = 2e-3;
  op.difference_step = 1e-7;
  op.float32_tolerance = 2e-3;
  op.bfloat16 = false;
  check_op(op);
}

TEST(Attention, RefusesWrongShapes) {
  device::Device device;
  Tape tape(device);
  const Var q = tape.constant(Tensor(device, {4, 6}, DType::Float32));
  const Var k = tape.constant(Tensor(device, {4, 4}, DType::Float32));
  const Sequences one{.batch = 1, .length = 4, .documents = {}},
      three{.batch = 1, .length = 3, .documents = {}};
  EXPECT_NO_THROW(ops::gqa_attention(tape, q, q, q, {1, 1, 6}, one, 1));
  EXPECT_THROW(ops::gqa_attention(tape, q, q, q, {1, 1, 6}, three, 1), Error);
  EXPECT_THROW(ops::gqa_attention(tape, q, q, q, {1, 1, 5}, one, 1), Error);
  EXPECT_THROW(ops::gqa_attention(tape, q, k, k, {3, 2, 2}, one, 1), Error);
  EXPECT_NO_THROW(ops::mla_attention(tape, q, k, k, {1, 2, 4, 2}, one, 1));
  EXPECT_THROW(ops::mla_attention(tape, q, k, k, {2, 1, 2, 1}, one, 1), Error);
}

}  // namespace
}  // namespace strata::test
