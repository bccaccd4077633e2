#include "train/peaks.h"

#include <algorithm>
#include <chrono>

#include "kernels/jobs.h"
#include "tensor/tensor.h"

namespace strata::train {
namespace {

using Clock = std::chrono::steady_clock;

// `work` per second at the best of many short tries: other work on the machine spoils some. Ends when the
// best one stays the best.
template <class Job>
double best_rate(device::Device& device, const Job& job, double work) {
  constexpr int kSettled = 8;  // tries without a better one; the first also prepares
  constexpr double kSeconds = 0.2;
  double best = 0, spent = 0;
  for (int since_best = 0; since_best < kSettled && (best == 0 || spent < kSeconds); ++since_best) {
    const Clock::time_point start = Clock::now();
    device.compute().run(job);
    device.compute().synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    spent += seconds;
    if (work / seconds > 1.01 * best) since_best = 0;
    best = std::max(best, work / seconds);
  }
  return best;
}

Tensor ones(device::Device& device, Dims dims, DType type) {
  const Tensor t(device, dims, type);
  device.compute().run(kernels::Fill{.y = t, .value = 1});
  return t;
}

double gemm_rate(DType type, std::int64_t rows, std::int64_t size) {
  device::Device device;
  const Tensor a = ones(device, {rows, size}, type), b = ones(device, {size, size}, type),
               c = ones(device, {rows, size}, type);
  const kernels::Gemm job{.a = a, .b = b, .c = c, .transpose_b = true};
  return best_rate(device, job, kernels::flops(job));
}

}  // namespace

double gemm_peak(DType compute, std::int64_t rows, std::int64_t size) {
  const double own = gemm_rate(compute, rows, size);
  return compute == DType::BFloat16 ? std::max(own, gemm_rate(DType::Float32, rows, size)) : own;
}

double square_gemm_peak(DType compute) {
  double best = 0;
  for (const std::int64_t size : {512, 1024, 2048}) best = std::max(best, gemm_peak(compute, size, size));
  return best;
}

double copy_peak() {
  constexpr std::int64_t kCount = std::int64_t(1) << 25;
  device::Device device;
  const Tensor x = ones(device, {kCount}, DType::Float32), y = ones(device, {kCount}, DType::Float32);
  const kernels::Copy job{.x = x, .y = y};
  return best_rate(device, job, kernels::bytes(job));
}

}  // namespace strata::train
