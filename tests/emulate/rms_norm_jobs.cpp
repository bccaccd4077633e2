// RMSNorm as a job on CUDA against the CPU: odd and even widths, all Write modes, absent operands.
#include "emulate/job_check.h"

namespace strata::testing {
namespace {

using kernels::RmsNormBackward;
using kernels::RmsNormForward;

struct Problem {
  std::int64_t tokens = 7, width = 37;
  double eps = 1e-5;
  bool gain = true, y = true;
  Write mode = Write::Overwrite;
  bool wide_grad = false;  // dx in Acc
  bool dx = true, dweight = true;
};

void check(DType type, const Problem& p) {
  SCOPED_TRACE(::testing::Message() << name_of(type) << " [" << p.tokens << ", " << p.width << "]");
  JobArrays arrays(type);
  const DType full = arrays.full();
  arrays.normal("x", {p.tokens, p.width}, type);
  if (p.gain) arrays.normal("weight", {p.width}, full, 0.3, 1);
  if (p.y) arrays.empty("y", {p.tokens, p.width}, type);
  arrays.empty("rstd", {p.tokens}, full);
  check_job(arrays, [&](const Place& at) {
    return RmsNormForward{
        .x = at("x"), .weight = at("weight"), .eps = p.eps, .y = at("y"), .rstd = at("rstd")};
  });
  arrays.normal("dy", {p.tokens, p.width}, type);
  if (p.dx) arrays.normal("dx", {p.tokens, p.width}, p.wide_grad ? full : type);
  if (p.gain && p.dweight) arrays.normal("dweight", {p.width}, full);
  check_job(arrays, [&](const Place& at) {
    return RmsNormBackward{.dy = at("dy"),
                           .x = at("x"),
                           .weight = at("weight"),
                           .rstd = at("rstd"),
                           .dx = {at("dx"), p.mode},
                           .dweight = at("dweight")};
  });
}

class RmsNormJobs : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, RmsNormJobs,
                         ::testing::Values(DType::Float32, DType::Float64, DType::BFloat16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(RmsNormJobs, OddWidth) { check(GetParam(), {}); }
TEST_P(RmsNormJobs, Packs) { check(GetParam(), {.tokens = 5, .width = 264, .mode = Write::Accumulate}); }
TEST_P(RmsNormJobs, OneToken) { check(GetParam(), {.tokens = 1, .width = 5}); }
// Its gradient is what eps leaves over.
TEST_P(RmsNormJobs, OneColumn) { check(GetParam(), {.tokens = 3, .width = 1, .eps = 0.5}); }
TEST_P(RmsNormJobs, ManyChunks) { check(GetParam(), {.tokens = 1031, .width = 3}); }
TEST_P(RmsNormJobs, NoGain) { check(GetParam(), {.gain = false, .mode = Write::Accumulate}); }
TEST_P(RmsNormJobs, OnlyStatistics) { check(GetParam(), {.y = false, .dx = false}); }
TEST_P(RmsNormJobs, OnlyTheInputsGradient) { check(GetParam(), {.wide_grad = true, .dweight = false}); }

TEST(RmsNormJob, RefusesWhatDoesNotFit) {
  on_every_device([](cuda::Device& device) {
    cuda::CudaStream stream(device);
    const DeviceArray<float> memory(device, 12);
    float* p = memory.data();
    const View x{p, DType::Float32, {3, 4}}, rstd{p, DType::Float32, {3}};
    const auto message = [&](const RmsNormForward& job) -> std::string {
      try {
        stream.run(job);
      } catch (const Error& e) {
        return e.what();
      }
      return "";
    };
    EXPECT_EQ(message({.x = x, .weight = View{p, DType::Float64, {4}}, .y = x, .rstd = rstd}),
              "rms_norm: weight is float64, not float32");
    EXPECT_EQ(message({.x = x, .weight = {}, .y = View{p, DType::Int32, {3, 4}}, .rstd = rstd}),
              "rms_norm: y is int32, not float32 or bfloat16");
    EXPECT_EQ(message({.x = x, .weight = {}, .y = x, .rstd = View{p, DType::Float32, {4}}}),
              "rms_norm: rstd is [4], not [3]");
  });
}

// Working memory grows while earlier jobs that use the smaller piece may not have run.
TEST(CudaStream, ScratchGrowsBehindJobsThatUseIt) {
  JobArrays arrays(DType::Float32);
  for (const auto& [letter, tokens] : {std::pair('a', 20), std::pair('b', 400)}) {
    const std::string s(1, letter);
    for (const char* name : {"x", "dy"}) arrays.normal(name + s, {tokens, 9}, DType::Float32);
    arrays.normal("rstd" + s, {tokens}, DType::Float32, 0.1, 1);
    arrays.normal("dw" + s, {9}, DType::Float32);
  }
  const auto both = [](auto& stream, const Place& at) {
    for (const std::string s : {"a", "b", "a"})
      stream.run(RmsNormBackward{.dy = at("dy" + s),
                                 .x = at("x" + s),
                                 .weight = {},
                                 .rstd = at("rstd" + s),
                                 .dx = {},
                                 .dweight = at("dw" + s)});
  };
  const JobArrays got = run_on_cuda(arrays, both);
  run_on_cpu(arrays, both);
  if (!got.all.empty()) expect_close(got, arrays);
}

}  // namespace
}  // namespace strata::testing
