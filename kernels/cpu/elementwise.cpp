// Fill, copies with conversion, and sums of two tensors.
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

// Sums and conversions go through the wider of the two accumulators.
template <class A, class B>
using Wider = std::conditional_t<sizeof(Acc<A>) >= sizeof(Acc<B>), Acc<A>, Acc<B>>;

template <class From, class To>
void copy(const Copy& job) {
  using A = Wider<From, To>;
  const From* x = job.x.as<From>();
  To* y = job.y.as<To>();
  parallel_elements(job.y.numel(), [&](std::int64_t begin, std::int64_t end) {
    if (job.mode == Write::Accumulate)
      for (std::int64_t i = begin; i < end; ++i) y[i] = To(A(y[i]) + A(x[i]));
    else
      for (std::int64_t i = begin; i < end; ++i) y[i] = To(A(x[i]));
  });
}

}  // namespace

void run(CpuStream&, const Fill& job) {
  const auto fill = [&]<class T>() {
    T* y = job.y.as<T>();
    const T value = T(job.value);
    parallel_elements(job.y.numel(),
                      [&](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, value); });
  };
  if (job.y.dtype == DType::Int32) return fill.operator()<std::int32_t>();
  if (job.y.dtype == DType::Int64) return fill.operator()<std::int64_t>();
  for_float(job.y.dtype, fill);
}

void run(CpuStream&, const Copy& job) {
  STRATA_CHECK(job.x.numel() == job.y.numel(), "copy of ", job.x.dims.text(), " into ", job.y.dims.text());
  for_float(job.x.dtype,
            [&]<class From>() { for_float(job.y.dtype, [&]<class To>() { copy<From, To>(job); }); });
}

void run(CpuStream&, const Add& job) {
  STRATA_CHECK(job.a.numel() == job.y.numel() && job.b.numel() == job.y.numel(), "sum of ", job.a.dims.text(),
               " and ", job.b.dims.text(), " into ", job.y.dims.text());
  for_float(job.y.dtype, [&]<class T>() {
    using A = Acc<T>;
    const T *a = job.a.as<T>(), *b = job.b.as<T>();
    T* y = job.y.as<T>();
    parallel_elements(job.y.numel(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = T(A(a[i]) + A(b[i]));
    });
  });
}

}  // namespace strata::kernels
