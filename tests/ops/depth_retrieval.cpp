// Retrieval over depth in two phases against one softmax over all sources: views of every kind, documents,
// one token, kernels longer than a sequence, one source, odd widths, every fusion.
#include <gtest/gtest.h>

#include "ops/depth_attend.h"
#include "ops/depth_merge.h"
#include "ops/documents.h"
#include "reference/depth_retrieval.h"
#include "reference/fusion.h"

namespace strata::test {
namespace {

using kernels::Fusion;
using reference::Array;
using reference::DepthViews;
using reference::Ids;

// Runs of `run` tokens with ids 0 .. period-1, again and again: documents that stop and go on later.
Ids runs(std::int64_t tokens, std::int64_t run, std::int64_t period) {
  Ids ids(tokens);
  for (std::int64_t t = 0; t < tokens; ++t) ids[t] = t / run % period;
  return ids;
}

struct Problem {
  std::int64_t batch = 2, length = 11, width = 7, sources = 3, targets = 2, views = 3;
  DepthViews kind = DepthViews::kCausalConv;
  std::vector<std::int64_t> kernels = {3, 5};  // of views 1..
  Ids documents = {};
  double eps = 1e-3;

  std::int64_t tokens() const { return batch * length; }
  bool convolves() const { return kind == DepthViews::kCausalConv && views > 1; }
  std::vector<std::int64_t> source_shape() const {
    if (kind == DepthViews::kStream) return {tokens(), views, width};
    return {tokens(), width};
  }
  reference::DepthSpec spec() const { return {kind, eps, length, documents}; }
};

std::string numbered(const char* what, std::int64_t i) { return what + std::to_string(i); }
std::string conv_name(std::int64_t j, std::int64_t r) { return concat("conv", j, "_", r); }

struct DepthCase : OpCase {
  Problem p;

  explicit DepthCase(Problem p_) : p(std::move(p_)) {}

  std::vector<OpInput> source_inputs(std::int64_t sources, std::int64_t targets) const {
    std::vector<OpInput> in;
    for (std::int64_t j = 0; j < sources; ++j) {
      in.push_back({numbered("v", j), p.source_shape()});
      for (std::int64_t r = 1; p.convolves() && r < p.views; ++r)
        in.push_back({conv_name(j, r), {p.width, p.kernels.at(r - 1)}, OpInput::FullWeight, 0.5});
    }
    for (std::int64_t k = 0; k < targets; ++k) {
      in.push_back({numbered("q", k), {p.views, p.width}, OpInput::FullWeight, 0.7});
      in.push_back({numbered("w", k), {p.width}, OpInput::FullWeight, 0.3, 1});
    }
    return in;
  }
  ops::ConvSet convs(const OpArgs& in, std::int64_t j) const {
    ops::ConvSet set;
    for (std::int64_t r = 1; p.convolves() && r < p.views; ++r) set.push_back(&in.weight(conv_name(j, r)));
    return set;
  }
  ops::DepthTarget target(const OpArgs& in, std::int64_t k) const {
    return {&in.weight(numbered("q", k)), &in.weight(numbered("w", k))};
  }
  std::vector<ops::DepthOpened> attend(Tape& tape, const OpArgs& in, const Sequences& s, std::int64_t sources,
                                       std::int64_t targets) const {
    std::vector<Var> values;
    std::vector<ops::ConvSet> sets;
    std::vector<ops::DepthTarget> asks;
    for (std::int64_t j = 0; j < sources; ++j) {
      values.push_back(in.var(numbered("v", j)));
      if (p.convolves()) sets.push_back(convs(in, j));
    }
    for (std::int64_t k = 0; k < targets; ++k) asks.push_back(target(in, k));
    return ops::depth_attend(tape, values, sets, asks, s, p.views, p.eps);
  }
  reference::DepthViewsRetrieval retrieve(const Arrays& in, std::int64_t sources, std::int64_t k) const {
    std::vector<Array> values;
    std::vector<std::vector<Array>> taps;
    for (std::int64_t j = 0; j < sources; ++j) {
      values.push_back(in.at(numbered("v", j)));
      taps.emplace_back();
      for (std::int64_t r = 1; p.convolves() && r < p.views; ++r)
        taps.back().push_back(in.at(conv_name(j, r)));
    }
    return reference::depth_retrieve_views(values, in.at(numbered("q", k)), in.at(numbered("w", k)), taps,
                                           p.spec());
  }
};

// Phase 1 alone: out and log-sum-exp of every target.
struct AttendCase : DepthCase {
  explicit AttendCase(Problem p_) : DepthCase(std::move(p_)) { releases = Recompute::DepthRetrieval; }

  std::vector<OpInput> inputs() const override { return source_inputs(p.sources, p.targets); }
  std::vector<Var> run(Tape& tape, const OpArgs& in) const override {
    std::vector<Var> outputs;
    for (const ops::DepthOpened& o :
         attend(tape, in, make_sequences(tape, p.batch, p.length, p.documents), p.sources, p.targets))
      outputs.insert(outputs.end(), {o.out, o.lse});
    return outputs;
  }
  std::vector<Array> reference(const Arrays& in) const override {
    std::vector<Array> outputs;
    for (std::int64_t k = 0; k < p.targets; ++k) {
      const reference::DepthViewsRetrieval found = retrieve(in, p.sources, k);
      Array lse({p.tokens(), p.views});
      for (std::int64_t t = 0; t < p.tokens(); ++t)
        for (std::int64_t r = 0; r < p.views; ++r) lse(t, r) = found.lse(r, t);
      outputs.insert(outputs.end(), {found.z, lse});
    }
    return outputs;
  }
};

// Both phases: the last source is the partial sum; the first target has it, the others do not see it.
struct MergeCase : DepthCase {
  Fusion fusion;
  bool partial = true;

  MergeCase(Problem p_, Fusion fusion_, bool partial_ = true)
      : DepthCase(std::move(p_)), fusion(fusion_), partial(partial_) {
    releases = Recompute::DepthRetrieval;
  }

  std::vector<OpInput> inputs() const override {
    std::vector<OpInput> in = source_inputs(p.sources, 1);
    if (fusion != Fusion::Gate) return in;
    const std::int64_t M = p.views;
    in.push_back({"gate", {M, M * p.width}, OpInput::FullWeight, 0.4});
    in.push_back({"scale", {1}, OpInput::FullWeight, 0.1, 0.8});
    in.push_back({"bias", {M}, OpInput::FullWeight, 0.5});
    return in;
  }
  std::vector<Var> run(Tape& tape, const OpArgs& in) const override {
    const Sequences s = make_sequences(tape, p.batch, p.length, p.documents);
    const std::int64_t completed = p.sources - (partial ? 1 : 0);
    const ops::DepthOpened opened = attend(tape, in, s, completed, 1).at(0);
    ops::DepthFusion how{fusion, {}};
    if (fusion == Fusion::Gate) how.gate = {&in.weight("gate"), &in.weight("scale"), &in.weight("bias")};
    ops::DepthPartial running;
    if (partial) running = {in.var(numbered("v", completed)), convs(in, completed), target(in, 0)};
    return {ops::depth_merge(tape, opened.out, opened.lse, partial ? &running : nullptr, how, s, p.eps).y};
  }
  std::vector<Array> reference(const Arrays& in) const override {
    const Array z = retrieve(in, p.sources, 0).z;
    if (fusion == Fusion::None) return {z};
    if (fusion == Fusion::Mean) return {reference::fuse_mean(z)};
    return {reference::fuse_gated(
        z, reference::fusion_gates(z, in.at("gate"), in.at("scale").data[0], in.at("bias"), p.eps))};
  }
};

Problem self(std::int64_t views) { return {.views = views, .kind = DepthViews::kSelf, .kernels = {}}; }
Problem streams(std::int64_t views) { return {.views = views, .kind = DepthViews::kStream, .kernels = {}}; }
Problem two_views() { return {.views = 2, .kernels = {4}}; }
Problem documents() {
  Problem p;
  p.documents = runs(p.tokens(), 4, 2);
  return p;
}
Problem one_token() { return {.batch = 1, .length = 1}; }
Problem short_sequences() { return {.batch = 5, .length = 3, .kernels = {7, 4}}; }
// Chunks of 16 tokens; the second kernel reaches back over more than one.
Problem long_sequence() {
  return {.batch = 1,
          .length = 70,
          .width = 3,
          .sources = 2,
          .targets = 1,
          .kernels = {2, 40},
          .documents = runs(70, 50, 2)};
}
Problem eight_views() {
  return {.batch = 1,
          .length = 9,
          .width = 5,
          .sources = 2,
          .targets = 1,
          .views = 8,
          .kernels = {2, 4, 6, 8, 10, 12, 16}};
}
Problem many() {
  return {.batch = 1, .length = 6, .width = 13, .sources = 9, .targets = 7, .views = 1, .kernels = {}};
}

TEST(DepthAttend, Convolutions) { check_op(AttendCase(Problem())); }
TEST(DepthAttend, TwoViews) { check_op(AttendCase(two_views())); }
TEST(DepthAttend, EightViews) { check_op(AttendCase(eight_views())); }
TEST(DepthAttend, Documents) { check_op(AttendCase(documents())); }
TEST(DepthAttend, OneToken) { check_op(AttendCase(one_token())); }
TEST(DepthAttend, KernelsLongerThanTheSequence) { check_op(AttendCase(short_sequences())); }
TEST(DepthAttend, KernelsLongerThanAChunk) { check_op(AttendCase(long_sequence())); }
TEST(DepthAttend, OneView) { check_op(AttendCase(self(1))); }
TEST(DepthAttend, SameViews) { check_op(AttendCase(self(4))); }
TEST(DepthAttend, Streams) { check_op(AttendCase(streams(4))); }
TEST(DepthAttend, ManySourcesAndTargets) { check_op(AttendCase(many())); }
TEST(DepthAttend, WholeVectors) {
  Problem p = two_views();
  p.width = 32;
  check_op(AttendCase(p));
}
// Tokens 16 to 19 are places 4 to 7 of the second sequence: the first of them lacks one row of six.
TEST(DepthAttend, ATileThatNearlySeesAllItsRows) {
  Problem p = two_views();
  p.batch = 2, p.length = 12, p.width = 8, p.kernels = {6};
  check_op(AttendCase(p));
}
TEST(DepthAttend, OneSource) {
  Problem p;
  p.sources = 1;
  check_op(AttendCase(p));
}

TEST(DepthMerge, ConvolutionsAndGate) { check_op(MergeCase(Problem(), Fusion::Gate)); }
TEST(DepthMerge, ConvolutionsAndMean) { check_op(MergeCase(Problem(), Fusion::Mean)); }
TEST(DepthMerge, Documents) { check_op(MergeCase(documents(), Fusion::Gate)); }
TEST(DepthMerge, OneToken) {
  MergeCase op(one_token(), Fusion::Gate);
  op.seed = 2;  // at 1 the scale's gradient cancels
  check_op(op);
}
TEST(DepthMerge, KernelsLongerThanTheSequence) { check_op(MergeCase(short_sequences(), Fusion::Gate)); }
TEST(DepthMerge, KernelsLongerThanAChunk) { check_op(MergeCase(long_sequence(), Fusion::Gate)); }
TEST(DepthMerge, EightViews) {
  MergeCase op(eight_views(), Fusion::Gate);
  op.seed = 2;
  check_op(op);
}
TEST(DepthMerge, OneView) { check_op(MergeCase(self(1), Fusion::Mean)); }
TEST(DepthMerge, OneGatedView) { check_op(MergeCase(self(1), Fusion::Gate)); }
TEST(DepthMerge, SameViews) { check_op(MergeCase(self(3), Fusion::Gate)); }
TEST(DepthMerge, StreamsAlone) { check_op(MergeCase(streams(4), Fusion::None)); }
TEST(DepthMerge, StreamsAndGate) { check_op(MergeCase(streams(2), Fusion::Gate)); }
TEST(DepthMerge, NoPartialGate) { check_op(MergeCase(Problem(), Fusion::Gate, false)); }
TEST(DepthMerge, NoPartialMean) { check_op(MergeCase(Problem(), Fusion::Mean, false)); }

TEST(DepthMerge, NoPartialOneViewCostsNothing) {
  MergeCase op(self(1), Fusion::Mean, false);
  op.releases = {};
  check_op(op);
}
TEST(DepthMerge, NoPartialNoFusionCostsNothing) { check_op(MergeCase(streams(3), Fusion::None, false)); }

}  // namespace
}  // namespace strata::test
