// (a, b) -> (a cos - b sin, a sin + b cos) on the pairs of dims [begin, end) of every head; the rest is
// copied.
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rotation.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class T, RopePairing kPairing>
void rope(CpuStream& stream, const Rope& job) {
  using Table = RotationTable<Acc<T>>;
  const std::int64_t tokens = job.x.dims[0], H = job.x.dims[1], D = job.x.dims[2];
  const std::int64_t length = job.length, width = job.end - job.begin;
  const Table table(stream.scratch<double>(Table::size(length, width, job.start)), length, width, job.theta,
                    job.inverse, job.start);
  const T* x = job.x.as<T>();
  T* y = job.y.as<T>();
  parallel_for(tokens, [&](std::int64_t t) {
    const auto *c = table.cosine(t % length), *s = table.sine(t % length);
    for (std::int64_t h = 0; h < H; ++h) {
      const T* xh = x + (t * H + h) * D;
      T* yh = y + (t * H + h) * D;
      for (std::int64_t i = 0; i < job.begin; ++i) put(yh[i], Acc<T>(xh[i]), job.mode);
      rotate<kPairing>(table.pairs(), xh + job.begin, c, s, yh + job.begin, job.mode);
      for (std::int64_t i = job.end; i < D; ++i) put(yh[i], Acc<T>(xh[i]), job.mode);
    }
  });
}

}  // namespace

void run(CpuStream& stream, const Rope& job) {
  for_float(job.x.dtype, [&]<class T>() {
    if (job.pairing == RopePairing::Interleaved)
      rope<T, RopePairing::Interleaved>(stream, job);
    else
      rope<T, RopePairing::Half>(stream, job);
  });
}

}  // namespace strata::kernels
