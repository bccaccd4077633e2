// Rows of a table by id. The gradient adds in token order: threads share the columns, not the tokens.
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_io.h"
#include "kernels/jobs.h"

namespace strata::kernels {

void run(CpuStream&, const EmbeddingForward& job) {
  const std::int64_t T = job.ids.numel(), D = job.weight.dims[1];
  const std::int32_t* ids = job.ids.as<std::int32_t>();
  for_float(job.weight.dtype, [&]<class X>() {
    const X* w = job.weight.as<X>();
    X* y = job.y.as<X>();
    parallel_for(T, [&](std::int64_t t) { std::copy_n(w + ids[t] * D, D, y + t * D); });
  });
}

void run(CpuStream&, const EmbeddingBackward& job) {
  const std::int64_t T = job.ids.numel(), D = job.dweight.dims[1];
  const std::int32_t* ids = job.ids.as<std::int32_t>();
  const Chunks columns(D, 16, 64);
  for_float(job.dy.dtype, [&]<class X>() {
    const X* dy = job.dy.as<X>();
    Acc<X>* dw = job.dweight.as<Acc<X>>();
    parallel_for(columns.count, [&](std::int64_t c) {
      for (std::int64_t t = 0; t < T; ++t)
        for (std::int64_t i = columns.begin(c); i < columns.end(c); ++i)
          dw[ids[t] * D + i] += Acc<X>(dy[t * D + i]);
    });
  });
}

}  // namespace strata::kernels
