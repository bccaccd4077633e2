// The retrieval over depth as jobs on CUDA against the CPU, both phases in both directions: views of every
// kind, borders of sequences, documents, tiles, chunks and panels, absent and accumulated gradients.
#include "emulate/depth_arrays.h"

namespace strata::testing {
namespace {

using kernels::Fusion;

using Problem = DepthProblem;

void check_attend_forward(DepthArrays& a) {
  SCOPED_TRACE("forward");
  check_job(a, [&](const Place& at) {
    kernels::DepthAttendForward job{
        .sources = {}, .targets = {}, .sequences = a.sequences(at), .eps = 1e-3, .rstd = at("rstd")};
    for (std::int64_t j = 0; j < a.p.sources; ++j) job.sources.push_back(a.source(at, j));
    for (std::int64_t k = 0; k < a.p.targets; ++k)
      job.targets.push_back({.ask = a.ask(at, k),
                             .out = at(numbered("out", k)),
                             .lse = at(numbered("lse", k)),
                             .logits = at(numbered("logits", k))});
    return job;
  });
}

void check_attend_backward(DepthArrays& a) {
  SCOPED_TRACE("backward");
  check_job(a, [&](const Place& at) {
    kernels::DepthAttendBackward job{
        .sources = {}, .dsources = {}, .targets = {}, .sequences = a.sequences(at), .rstd = at("rstd")};
    for (std::int64_t j = 0; j < a.p.sources; ++j) {
      job.sources.push_back(a.source(at, j));
      job.dsources.push_back(a.source_grad(at, j));
    }
    for (std::int64_t k = 0; k < a.p.targets; ++k)
      job.targets.push_back({.ask = a.ask(at, k),
                             .out = at(numbered("out", k)),
                             .lse = at(numbered("lse", k)),
                             .logits = at(numbered("logits", k)),
                             .dout = at(numbered("dout", k)),
                             .dlse = at(numbered("dlse", k)),
                             .dquery = at(numbered("dquery", k)),
                             .dkey_norm = at(numbered("dkey_norm", k))});
    return job;
  });
}

void check_weights(DepthArrays& a) {
  SCOPED_TRACE("weights");
  a.normal("partial_logits", a.stats(), a.full());
  for (const bool partial : {false, true}) {
    a.empty("weights", {a.p.views, a.p.sources + partial, a.p.tokens()}, a.full());
    check_job(a, [&](const Place& at) {
      return kernels::DepthWeights{.logits = at("logits0_0"),
                                   .lse = at("lse0_0"),
                                   .partial_logits = at(partial ? "partial_logits" : "none"),
                                   .weights = at("weights")};
    });
  }
}

void check_attend(DType type, const Problem& p) {
  DepthArrays a(type, p);
  check_attend_forward(a);
  check_attend_backward(a);
  check_weights(a);
}

// `partial` has source 0 and target 0 of the arrays join.
void check_merge(DType type, const Problem& p, Fusion fusion, bool partial = true) {
  SCOPED_TRACE(::testing::Message() << "fusion " << int(fusion));
  DepthArrays a(type, p);
  const std::int64_t M = p.views, T = p.tokens();
  const Dims fused = fusion == Fusion::None ? a.rows() : Dims{T, p.width};
  a.normal("out", a.rows(), type);
  a.normal("dout", a.rows(), a.grad_type());
  a.normal("y_dlse", a.stats(), a.full());
  a.normal("lse", a.stats(), a.full());
  a.empty("y", fused, type);
  a.normal("dy", fused, a.grad_type());
  if (fusion == Fusion::Gate) {
    a.normal("gate", {M, M * p.width}, a.full(), 0.4);
    a.normal("scale", {1}, a.full(), 0.1, 0.8);
    a.normal("bias", {M}, a.full(), 0.5);
    for (const auto& [name, dims] :
         {std::pair("dgate", Dims{M, M * p.width}), {"dscale", {1}}, {"dbias", {M}}})
      a.normal(name, dims, a.full());
    a.empty("gates", a.stats(), a.full());
    a.empty("gate_rstd", {T}, a.full());
  }
  if (partial) {
    a.empty("logits", a.stats(), a.full());
    a.empty("partial_rstd", a.stats(), a.full());
  }
  const auto common = [&](auto& job, const Place& at) {
    job.out = at("out"), job.lse = at(partial ? "lse" : "none");
    if (partial) job.partial = a.source(at, 0), job.ask = a.ask(at, 0);
    job.fusion = fusion;
    job.gate = {at("gate"), at("scale"), at("bias")};
    job.sequences = a.sequences(at);
    job.logits = at("logits"), job.rstd = at("partial_rstd");
    job.gates = at("gates"), job.gate_rstd = at("gate_rstd");
  };
  check_job(a, [&](const Place& at) {
    kernels::DepthMergeForward job;
    common(job, at);
    job.eps = 1e-3, job.y = at("y");
    return job;
  });
  check_job(a, [&](const Place& at) {
    kernels::DepthMergeBackward job;
    common(job, at);
    job.dy = at("dy");
    job.dout = {at("dout"), p.mode};
    if (partial) {
      job.dlse = {at("y_dlse"), p.mode};
      job.dpartial = a.source_grad(at, 0);
      job.dquery = at("dquery0_0"), job.dkey_norm = at("dkey_norm0_0");
    }
    job.dgate_weight = at("dgate"), job.dgate_scale = at("dscale"), job.dgate_bias = at("dbias");
    return job;
  });
}

Problem self(std::int64_t views) { return {.views = views, .kind = Views::Self, .kernels = {}}; }
Problem streams(std::int64_t views) { return {.views = views, .kind = Views::Streams, .kernels = {}}; }
Problem one_token() { return {.batch = 1, .length = 1, .mode = Write::Accumulate}; }
Problem short_sequences() { return {.batch = 5, .length = 3, .kernels = {7, 4}, .narrow_grads = true}; }
// Documents that stop and go on later, in runs that no tile fits.
Problem documents() { return {.document_run = 3, .mode = Write::Accumulate}; }
// Two panels of 256 tokens; the longer kernel reaches over tiles and chunks, and more lags than a thread
// takes.
Problem panels() {
  return {.batch = 1,
          .length = 270,
          .width = 3,
          .sources = 2,
          .targets = 1,
          .kernels = {2, 20},
          .document_run = 100};
}
Problem packs() { return {.batch = 1, .length = 6, .width = 136, .sources = 5, .views = 2, .kernels = {4}}; }
Problem eight_views() {
  return {.batch = 1,
          .length = 9,
          .width = 5,
          .sources = 1,
          .targets = 1,
          .views = 8,
          .kernels = {2, 4, 6, 8, 10, 12, 16}};
}
Problem many() {
  return {.batch = 1, .length = 6, .width = 13, .sources = 9, .targets = 11, .views = 1, .kernels = {}};
}

class DepthJobs : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, DepthJobs, ::testing::Values(DType::Float32, DType::Float64, DType::BFloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(DepthJobs, AttendConvolutions) { check_attend(GetParam(), {}); }
TEST_P(DepthJobs, AttendOneToken) { check_attend(GetParam(), one_token()); }
TEST_P(DepthJobs, AttendKernelsLongerThanTheSequence) { check_attend(GetParam(), short_sequences()); }
TEST_P(DepthJobs, AttendDocuments) { check_attend(GetParam(), documents()); }
TEST_P(DepthJobs, AttendPacks) { check_attend(GetParam(), packs()); }
TEST_P(DepthJobs, AttendSameViews) { check_attend(GetParam(), self(4)); }
TEST_P(DepthJobs, AttendStreams) { check_attend(GetParam(), streams(4)); }
TEST_P(DepthJobs, AttendManySourcesAndTargets) { check_attend(GetParam(), many()); }
TEST_P(DepthJobs, MergeGate) { check_merge(GetParam(), {}, Fusion::Gate); }
TEST_P(DepthJobs, MergeMean) { check_merge(GetParam(), documents(), Fusion::Mean); }
TEST_P(DepthJobs, MergeNothing) { check_merge(GetParam(), streams(4), Fusion::None); }
TEST_P(DepthJobs, MergeOneToken) { check_merge(GetParam(), one_token(), Fusion::Gate); }
TEST_P(DepthJobs, MergeKernelsLongerThanTheSequence) {
  check_merge(GetParam(), short_sequences(), Fusion::Gate);
}
TEST_P(DepthJobs, MergePacks) { check_merge(GetParam(), packs(), Fusion::Gate); }
TEST_P(DepthJobs, MergeNoPartialGate) { check_merge(GetParam(), streams(3), Fusion::Gate, false); }

TEST(DepthJob, AttendEightViews) { check_attend(DType::Float64, eight_views()); }
TEST(DepthJob, AttendPanels) { check_attend(DType::Float64, panels()); }
TEST(DepthJob, MergeEightViews) { check_merge(DType::Float64, eight_views(), Fusion::Gate); }
// More gates than go together, and columns for more than one warp.
TEST(DepthJob, MergeNineWideStreams) {
  Problem p = streams(9);
  p.width = 67, p.length = 3;
  check_merge(DType::Float64, p, Fusion::Gate);
}
TEST(DepthJob, MergePanels) { check_merge(DType::Float64, panels(), Fusion::Mean); }
TEST(DepthJob, MergeOneView) {
  for (const Fusion fusion : {Fusion::None, Fusion::Mean, Fusion::Gate})
    check_merge(DType::Float64, self(1), fusion);
}
TEST(DepthJob, MergeNoPartial) {
  for (const Fusion fusion : {Fusion::None, Fusion::Mean})
    check_merge(DType::Float64, self(2), fusion, false);
}

// Absent: gradients nobody wants, and those that never came. The first target is silent in every way.
TEST(DepthJob, AttendAbsentOperands) {
  Problem p = documents();
  p.targets = 4;
  DepthArrays a(DType::Float64, p);
  check_attend_forward(a);
  for (const char* name : {"dout0_0", "dlse0_0", "dout1_0", "dlse2_0", "dquery3_0", "dkey_norm2_0",
                           "dvalue1_0", "dconv0_1", "dconv1_2"})
    ASSERT_EQ(a.all.erase(name), 1u) << name;
  check_attend_backward(a);
}
TEST(DepthJob, AttendNoTargetHasAGradient) {
  DepthArrays a(DType::Float32, {});
  check_attend_forward(a);
  for (const char* name : {"dout0_0", "dlse0_0", "dout1_0", "dlse1_0"}) a.all.erase(name);
  check_attend_backward(a);
}
TEST(DepthJob, AttendOnlyWeightsHaveGradients) {
  Problem p = streams(2);
  DepthArrays a(DType::Float32, p);
  check_attend_forward(a);
  for (std::int64_t j = 0; j < p.sources; ++j) a.all.erase(numbered("dvalue", j));
  check_attend_backward(a);
}

// A table of views that one launch cannot carry.
TEST(DepthJob, AttendLongTables) {
  check_attend(DType::Float32,
               {.batch = 1, .length = 2, .width = 2, .sources = 20, .views = 3, .kernels = {2, 1}});
}

TEST(DepthJob, RefusesWhatDoesNotFit) {
  on_every_device([](cuda::Device& device) {
    cuda::CudaStream stream(device);
    const DeviceArray<float> memory(device, 64);
    const auto view = [&](Dims dims) { return View{memory.data(), DType::Float32, dims}; };
    kernels::DepthAttendForward job{
        .sources = {{view({6, 4}), {view({4, 2})}}},
        .targets = {{{view({2, 4}), view({4})}, view({6, 2, 4}), view({6, 2}), view({1, 6, 2})}},
        .sequences = {2, 3, {}},
        .eps = 1e-3,
        .rstd = view({1, 6, 2})};
    const auto message = [&](const auto& wrong) -> std::string {
      try {
        stream.run(wrong);
      } catch (const Error& e) {
        return e.what();
      }
      return "";
    };
    EXPECT_EQ(message(job), "");
    auto wrong = job;
    wrong.sequences.length = 4;
    EXPECT_NE(message(wrong).find("6 tokens in 2 sequences of 4"), std::string::npos) << message(wrong);
    wrong = job;
    wrong.sources[0].conv.push_back(view({4, 2}));
    EXPECT_NE(message(wrong).find("2 convolutions for 2 views"), std::string::npos) << message(wrong);
    wrong = job;
    wrong.targets[0].ask.key_norm = view({5});
    EXPECT_EQ(message(wrong), "depth_attend: key_norm is [5], not [4]");
    wrong = job;
    wrong.sources[0].value.dtype = DType::Float64;
    EXPECT_EQ(message(wrong), "depth_attend: source is float64, not float32 or bfloat16");
    stream.queue().fill(memory.data(), 0, 256);
    stream.synchronize();
  });
}

}  // namespace
}  // namespace strata::testing
