// Sums over whole tensors: chunks of a fixed size, in float64, added in order.
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

// sum of f(x[i]).
template <class T, class F>
double reduce(CpuStream& stream, const ConstView& view, F&& f) {
  const T* x = view.as<T>();
  const Chunks chunks(view.numel(), 1 << 13, 1 << 12);
  double* partial = stream.scratch<double>(chunks.count);
  parallel_for(chunks.count, [&](std::int64_t c) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = chunks.begin(c); i < chunks.end(c); ++i) sum += f(double(x[i]));
    partial[c] = sum;
  });
  double sum = 0;
  for (std::int64_t c = 0; c < chunks.count; ++c) sum += partial[c];
  return sum;
}

}  // namespace

void run(CpuStream& stream, const Sum& job) {
  for_acc(job.x.dtype, [&]<class T>() {
    const double sum = job.scale * reduce<T>(stream, job.x, [](double v) { return v; });
    put(*job.y.as<T>(), T(sum), job.mode);
  });
}

void run(CpuStream& stream, const SumSquares& job) {
  for_float(job.x.dtype, [&]<class T>() {
    put(*job.y.as<double>(), reduce<T>(stream, job.x, [](double v) { return v * v; }), job.mode);
  });
}

}  // namespace strata::kernels
