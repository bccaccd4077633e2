// Tokens to expert rows and back. Sums over a token's K choices run in the order of k.
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_io.h"
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

template <class A>
void gather_backward(const GatherRowsBackward& job) {
  const std::int64_t T = job.dx.view.dims[0], D = job.dx.view.dims[1], K = T ? job.slot_row.numel() / T : 0;
  const std::int32_t* slot_row = job.slot_row.as<std::int32_t>();
  const Chunks chunks(T);
  parallel_for(chunks.count, [&](std::int64_t c) {
    std::vector<A> sum(D), row(D);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      std::fill(sum.begin(), sum.end(), A(0));
      for (std::int64_t k = 0; k < K; ++k) {
        load_row(job.drows, slot_row[t * K + k] * D, D, row.data());
        for (std::int64_t i = 0; i < D; ++i) sum[i] += row[i];
      }
      store_row(job.dx.view, t * D, D, sum.data(), job.dx.mode);
    }
  });
}

template <class A>
void combine(const CombineRows& job) {
  const std::int64_t T = job.gates.dims[0], K = job.gates.dims[1], D = job.rows.dims[1];
  const std::int32_t* slot_row = job.slot_row.as<std::int32_t>();
  const A* gates = job.gates.as<A>();
  const Chunks chunks(T);
  parallel_for(chunks.count, [&](std::int64_t c) {
    std::vector<A> sum(D), row(D);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      std::fill(sum.begin(), sum.end(), A(0));
      for (std::int64_t k = 0; k < K; ++k) {
        load_row(job.rows, slot_row[t * K + k] * D, D, row.data());
        const A g = gates[t * K + k];
        for (std::int64_t i = 0; i < D; ++i) sum[i] += g * row[i];
      }
      store_row(job.y, t * D, D, sum.data(), Write::Overwrite);
    }
  });
}

template <class A>
void combine_backward(const CombineRowsBackward& job) {
  const std::int64_t T = job.gates.dims[0], K = job.gates.dims[1], D = job.rows.dims[1];
  const std::int32_t* slot_row = job.slot_row.as<std::int32_t>();
  const A* gates = job.gates.as<A>();
  A* dgates = job.dgates.view.as<A>();
  const Chunks chunks(T);
  parallel_for(chunks.count, [&](std::int64_t c) {
    std::vector<A> dy(D), row(D);
    for (std::int64_t t = chunks.begin(c); t < chunks.end(c); ++t) {
      load_row(job.dy, t * D, D, dy.data());
      for (std::int64_t k = 0; k < K; ++k) {
        const std::int64_t r = slot_row[t * K + k];
        load_row(job.rows, r * D, D, row.data());
        A dot = 0;
#pragma omp simd reduction(+ : dot)
        for (std::int64_t i = 0; i < D; ++i) dot += dy[i] * row[i];
        if (dgates) put(dgates[t * K + k], dot, job.dgates.mode);
        if (!job.drows) continue;
        const A g = gates[t * K + k];
        for (std::int64_t i = 0; i < D; ++i) row[i] = g * dy[i];
        store_row(job.drows.view, r * D, D, row.data(), job.drows.mode);
      }
    }
  });
}

}  // namespace

void run(CpuStream&, const GatherRows& job) {
  const std::int64_t T = job.x.dims[0], D = job.x.dims[1], R = job.rows.dims[0], K = T ? R / T : 1;
  const std::int32_t* row_slot = job.row_slot.as<std::int32_t>();
  for_float(job.x.dtype, [&]<class X>() {
    const X* x = job.x.as<X>();
    X* rows = job.rows.as<X>();
    parallel_for(R, [&](std::int64_t r) { std::copy_n(x + row_slot[r] / K * D, D, rows + r * D); });
  });
}
void run(CpuStream&, const GatherRowsBackward& job) {
  if (job.dx) for_acc(acc_of(job.drows.dtype), [&]<class A>() { gather_backward<A>(job); });
}
void run(CpuStream&, const CombineRows& job) {
  for_acc(job.gates.dtype, [&]<class A>() { combine<A>(job); });
}
void run(CpuStream&, const CombineRowsBackward& job) {
  for_acc(job.gates.dtype, [&]<class A>() { combine_backward<A>(job); });
}

}  // namespace strata::kernels
