// Operations of jobs, against products and sums counted by hand.
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

}  // namespace
}  // namespace strata::kernels
