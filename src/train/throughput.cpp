#include "train/throughput.h"

#include <algorithm>
#include <chrono>

#include "kernels/jobs.h"
#include "tensor/tensor.h"
#include "train/dry_run.h"
#include "train/run_text.h"

namespace strata::train {
namespace {

using Clock = std::chrono::steady_clock;

// Many short tries: other work on the machine spoils some. Ends when the best one stays the best.
double gemm_peak(DType type) {
  constexpr std::int64_t kRows = 256, kSize = 1024;
  constexpr int kSettled = 8;  // tries without a better one; the first also prepares
  constexpr double kSeconds = 0.2;
  device::Device device;
  const Tensor a(device, {kRows, kSize}, type), b(device, {kSize, kSize}, type),
      c(device, {kRows, kSize}, type);
  for (const Tensor& t : {a, b}) device.compute().run(kernels::Fill{.y = t, .value = 1});
  const kernels::Gemm job{.a = a, .b = b, .c = c, .transpose_b = true};
  double best = 0, spent = 0;
  for (int since_best = 0; since_best < kSettled && (best == 0 || spent < kSeconds); ++since_best) {
    const Clock::time_point start = Clock::now();
    device.compute().run(job);
    device.compute().synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    spent += seconds;
    const double speed = kernels::flops(job) / seconds;
    if (speed > 1.01 * best) since_best = 0;
    best = std::max(best, speed);
  }
  return best;
}

}  // namespace

double measured_gemm_peak(DType compute) {
  const double own = gemm_peak(compute);
  return compute == DType::BFloat16 ? std::max(own, gemm_peak(DType::Float32)) : own;
}

Throughput::Throughput(const RunConfig& config)
    : per_token_(model_flops_per_token(config)), measured_(!config.logging.peak_flops) {
  peak_ =
      config.logging.peak_flops ? *config.logging.peak_flops : measured_gemm_peak(config.precision.dtype());
}

std::optional<double> Throughput::share(double tokens_per_second) const {
  if (peak_ == 0) return {};
  return flops(tokens_per_second) / peak_;
}

std::string Throughput::text() const {
  std::string text = format("%.4g MFLOP a token forward and backward", per_token_ / 1e6);
  if (peak_ > 0)
    text +=
        format("; gemm peak %.1f GFLOP/s %s", peak_ / 1e9, measured_ ? "measured" : "(logging.peak_flops)");
  return text;
}

}  // namespace strata::train
