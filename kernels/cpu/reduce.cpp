// Sums over whole tensors: chunks of a fixed size, in float64, added in order.
#include <numeric>

#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

constexpr int kTogether = 32;  // sums side by side: one would wait for itself

// sum of f(x[i]).
template <class T, class F>
double reduce(CpuStream& stream, const ConstView& view, F&& f) {
  const T* x = view.as<T>();
  const Chunks chunks(view.numel(), 1 << 13, 1 << 12);
  double* partial = stream.scratch<double>(chunks.count);
  parallel_for(chunks.count, [&](std::int64_t c) {
    double sums[kTogether] = {};
    std::int64_t i = chunks.begin(c);
    for (; i + kTogether <= chunks.end(c); i += kTogether)
      for (int l = 0; l < kTogether; ++l) sums[l] += f(double(x[i + l]));
    for (; i < chunks.end(c); ++i) sums[0] += f(double(x[i]));
    partial[c] = std::accumulate(sums, sums + kTogether, 0.0);
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
