// Operations and bytes of jobs, counted by hand.
#include <gtest/gtest.h>

#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

float anything = 0;  // is never read

View shaped(Dims dims) { return {&anything, DType::Float32, dims}; }

// 10 tokens, 2 views of 8 dims, the second through a convolution of 4 taps.
DepthSource source() { return {.value = shaped({10, 8}), .conv = {shaped({8, 4})}}; }
constexpr double kConvolution = 2 * 10 * 8 * 4;

TEST(Flops, Products) {
  const Gemm plain{.a = shaped({3, 5}), .b = shaped({5, 7}), .c = shaped({3, 7})};
  EXPECT_EQ(flops(plain), 2 * 3 * 5 * 7);
  const Gemm transposed{.a = shaped({5, 3}), .b = shaped({5, 7}), .c = shaped({3, 7}), .transpose_a = true};
  EXPECT_EQ(flops(transposed), 2 * 3 * 5 * 7);
  EXPECT_EQ(flops(GroupedGemm{.x = shaped({9, 5}), .w = shaped({4, 7, 5}), .offsets = {}, .y = {}}),
            2 * 9 * 7 * 5);
  EXPECT_EQ(flops(GroupedGemmWeight{.dy = {}, .x = shaped({9, 5}), .offsets = {}, .dw = shaped({4, 7, 5})}),
            2 * 9 * 7 * 5);
  EXPECT_EQ(flops(HeadLinear{.x = shaped({10, 3, 8}), .w = shaped({3, 6, 5}), .begin = 1, .end = 5, .y = {}}),
            2 * 10 * 3 * 4 * 5);
}

// Four tokens behind one: 2 + 3 + 4 + 5 pairs in each of two sequences, of keys of 6 and values of 5 dims.
TEST(Flops, AttentionIsCausal) {
  const Heads q{.tensor = {}, .heads = 3, .dim = 6}, v{.tensor = {}, .heads = 1, .dim = 5};
  const Sequences sequences{.batch = 2, .length = 4, .documents = {}, .past = 1};
  const double forward = 2 * 2 * (2 + 3 + 4 + 5) * 3 * (6 + 5);
  EXPECT_EQ(flops(AttentionForward{
                .q = q, .k = {}, .v = v, .k_shared = {}, .sequences = sequences, .y = {}, .lse = {}}),
            forward);
  AttentionBackward backward;
  backward.q = q, backward.v = v, backward.sequences = sequences;
  EXPECT_EQ(flops(backward), 2 * forward);
}

// A score and a weighted sum for each source, target, view and token.
TEST(Flops, DepthAttend) {
  const double forward = 3 * kConvolution + 3 * 2 * (2 * 10) * (2 * 8 + 2 * 8);
  DepthAttendForward job;
  job.sources.assign(3, source());
  job.targets.resize(2);
  for (auto& target : job.targets) target.out = shaped({10, 2, 8});
  EXPECT_EQ(flops(job), forward);
  DepthAttendBackward backward;
  backward.sources = job.sources;
  backward.targets.resize(2);
  for (auto& target : backward.targets) target.out = shaped({10, 2, 8});
  EXPECT_EQ(flops(backward), 2 * forward);
}

TEST(Flops, DepthMerge) {
  DepthMergeForward job;
  job.out = shaped({10, 2, 8});
  EXPECT_EQ(flops(job), 0);
  job.fusion = Fusion::Mean;
  const double fused = 2 * 10 * 2 * 8;
  EXPECT_EQ(flops(job), fused);
  job.fusion = Fusion::Gate;
  job.gate.weight = shaped({2, 16});
  EXPECT_EQ(flops(job), fused + 2 * 10 * 16 * 2);
  job.partial = source();
  const double whole = fused + 2 * 10 * 16 * 2 + kConvolution + 10 * 2 * (2 * 8 + 2 * 8);
  EXPECT_EQ(flops(job), whole);
  DepthMergeBackward backward;
  backward.out = job.out, backward.fusion = job.fusion, backward.gate = job.gate,
  backward.partial = job.partial;
  EXPECT_EQ(flops(backward), 2 * whole);
}

// Three streams of 8 dims: one product each to read, three and one each to write.
TEST(Flops, HyperConnections) {
  const View x = shaped({10, 3, 8});
  EXPECT_EQ(flops(HyperReadForward{.x = x, .coef = {}, .z = {}}), 10 * 3 * 8 * 2);
  EXPECT_EQ(flops(HyperReadBackward{.dz = {}, .x = x, .coef = {}, .dx = {}, .dcoef = {}}), 10 * 3 * 8 * 4);
  const double write = 10 * 3 * 8 * 2 * (3 + 1);
  EXPECT_EQ(flops(HyperWriteForward{.x = x, .y = {}, .coef = {}, .next = x}), write);
  EXPECT_EQ(flops(HyperWriteForward{.x = {}, .y = {}, .coef = {}, .next = x}), 10 * 3 * 8 * 2);
  EXPECT_EQ(
      flops(HyperWriteBackward{.dnext = x, .x = x, .y = {}, .coef = {}, .dx = {}, .dy = {}, .dcoef = {}}),
      2 * write);
}

// Every operand once, one that is added to twice.
TEST(Bytes, Operands) {
  Gemm gemm{.a = shaped({3, 5}), .b = shaped({5, 7}), .c = shaped({3, 7})};
  EXPECT_EQ(bytes(gemm), 4 * (15 + 35 + 21));
  gemm.mode = Write::Accumulate;
  EXPECT_EQ(bytes(gemm), 4 * (15 + 35 + 2 * 21));
  const View half{&anything, DType::BFloat16, {9}};
  EXPECT_EQ(bytes(Copy{.x = half, .y = shaped({9})}), 9 * (2 + 4));
  RmsNormBackward norm{.dy = shaped({6, 8}),
                       .x = shaped({6, 8}),
                       .weight = shaped({8}),
                       .rstd = shaped({6}),
                       .dx = {},
                       .dweight = {}};
  EXPECT_EQ(bytes(norm), 4 * (48 + 48 + 8 + 6));
  norm.dx = {shaped({6, 8}), Write::Accumulate}, norm.dweight = shaped({8});
  EXPECT_EQ(bytes(norm), 4 * (48 + 48 + 8 + 6 + 2 * 48 + 2 * 8));
  AdamW adam{.master = shaped({9}), .m = shaped({9}), .v = shaped({9}), .grad = shaped({9}), .value = {}};
  EXPECT_EQ(bytes(adam), 9 * 7 * 4);
  adam.value = half;
  EXPECT_EQ(bytes(adam), 9 * (7 * 4 + 2));
}

// Rows that are looked up, and parts of a tensor that several views share.
TEST(Bytes, Parts) {
  EXPECT_EQ(bytes(EmbeddingForward{.ids = shaped({6}), .weight = shaped({1000, 8}), .y = shaped({6, 8})}),
            4 * (6 + 2 * 48));
  const ConstView rows = shaped({6, 40});
  AttentionForward job{.q = {.tensor = rows, .heads = 2, .dim = 5},
                       .k = {.tensor = rows, .heads = 1, .dim = 5},
                       .v = {.tensor = rows, .heads = 1, .dim = 3},
                       .k_shared = {},
                       .sequences = {},
                       .y = shaped({6, 6}),
                       .lse = shaped({2, 6})};
  EXPECT_EQ(bytes(job), 4 * 6 * (10 + 5 + 3 + 6 + 2));
}

// What no gradient arrived for is not read.
TEST(Bytes, DepthAttend) {
  DepthAttendBackward job;
  job.sources.assign(3, source());
  for (int j = 0; j < 3; ++j)
    job.dsources.push_back({{shaped({10, 8}), Write::Accumulate}, {shaped({8, 4})}});
  job.rstd = shaped({3, 10, 2});
  const double sources = 3 * (80 + 32 + 2 * 80 + 2 * 32) + 60;
  job.targets.resize(2);
  job.targets[0].out = shaped({10, 2, 8}), job.targets[0].lse = shaped({10, 2});
  EXPECT_EQ(bytes(job), 4 * sources);
  job.targets[1] = {.ask = {shaped({2, 8}), shaped({8})},
                    .out = shaped({10, 2, 8}),
                    .lse = shaped({10, 2}),
                    .logits = shaped({3, 10, 2}),
                    .dout = shaped({10, 2, 8}),
                    .dlse = {},
                    .dquery = shaped({2, 8}),
                    .dkey_norm = shaped({8})};
  EXPECT_EQ(bytes(job), 4 * (sources + 24 + 160 + 20 + 60 + 160 + 2 * 24));
}

}  // namespace
}  // namespace strata::kernels
