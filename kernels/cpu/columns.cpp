// Two matrices side by side, and apart again.
#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

// Columns [first, first + width) of dy into one gradient.
template <class T, class G>
void take_columns(const ConstView& dy, std::int64_t first, const Grad& into) {
  const std::int64_t rows = dy.dims[0], stride = dy.dims[1], width = into.view.dims[1];
  const T* from = dy.as<T>() + first;
  G* to = into.view.as<G>();
  parallel_for(rows, [&](std::int64_t t) {
    for (std::int64_t i = 0; i < width; ++i) put(to[t * width + i], Acc<T>(from[t * stride + i]), into.mode);
  });
}

void take_columns(const ConstView& dy, std::int64_t first, const Grad& into) {
  if (!into) return;
  for_float(dy.dtype, [&]<class T>() {
    if (into.view.dtype != dy.dtype)
      take_columns<T, Acc<T>>(dy, first, into);
    else
      take_columns<T, T>(dy, first, into);
  });
}

}  // namespace

void run(CpuStream&, const ConcatColumns& job) {
  const std::int64_t rows = job.y.dims[0], A = job.a.dims[1], B = job.b.dims[1];
  for_float(job.y.dtype, [&]<class T>() {
    const T *a = job.a.as<T>(), *b = job.b.as<T>();
    T* y = job.y.as<T>();
    parallel_for(rows, [&](std::int64_t t) {
      std::copy_n(a + t * A, A, y + t * (A + B));
      std::copy_n(b + t * B, B, y + t * (A + B) + A);
    });
  });
}

void run(CpuStream&, const SplitColumns& job) {
  take_columns(job.dy, 0, job.da);
  take_columns(job.dy, job.dy.dims[1] - (job.db ? job.db.view.dims[1] : 0), job.db);
}

}  // namespace strata::kernels
