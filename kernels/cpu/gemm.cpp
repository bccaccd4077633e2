// One matrix product, one per expert, and one per head and token.
#include "kernels/cpu/matmul.h"

namespace strata::kernels {
namespace {

// Matrix `index` of a stack, or `rows` rows of a matrix.
template <class V>
V part(const V& x, std::int64_t first_element, std::int64_t rows, std::int64_t columns) {
  V p = x;
  using Byte = std::conditional_t<std::is_same_v<V, View>, std::byte, const std::byte>;
  p.data = static_cast<Byte*>(x.data) + first_element * size_of(x.dtype);
  p.dims = {rows, columns};
  return p;
}

}  // namespace

void run(CpuStream& stream, const Gemm& job) { multiply(stream, {job}); }

void run(CpuStream& stream, const GroupedGemm& job) {
  const std::int64_t E = job.w.dims[0], O = job.w.dims[1], I = job.w.dims[2];
  const std::int64_t in = job.w_transposed ? I : O, out = job.w_transposed ? O : I;
  const auto* offsets = job.offsets.as<std::int32_t>();
  std::vector<Gemm> products;
  for (std::int64_t e = 0; e < E; ++e) {
    const std::int64_t rows = offsets[e + 1] - offsets[e];
    if (rows > 0)
      products.push_back({.a = part(job.x, offsets[e] * in, rows, in),
                          .b = part(job.w, e * O * I, O, I),
                          .c = part(job.y, offsets[e] * out, rows, out),
                          .transpose_b = job.w_transposed,
                          .mode = job.mode});
  }
  multiply(stream, products);
}

void run(CpuStream& stream, const GroupedGemmWeight& job) {
  const std::int64_t E = job.dw.dims[0], O = job.dw.dims[1], I = job.dw.dims[2];
  const auto* offsets = job.offsets.as<std::int32_t>();
  std::vector<Gemm> products;
  for (std::int64_t e = 0; e < E; ++e) {
    const std::int64_t rows = offsets[e + 1] - offsets[e];
    if (rows > 0)
      products.push_back({.a = part(job.dy, offsets[e] * O, rows, O),
                          .b = part(job.x, offsets[e] * I, rows, I),
                          .c = part(job.dw, e * O * I, O, I),
                          .transpose_a = true,
                          .mode = Write::Accumulate});
  }
  multiply(stream, products);
}

void run(CpuStream& stream, const HeadLinear& job) {
  const std::int64_t T = job.x.dims[0], H = job.x.dims[1], X = job.x.dims[2], Y = job.y.dims[2];
  const std::int64_t G = job.w.dims[1], R = job.w.dims[2], rows = job.end - job.begin;
  const std::int64_t in = job.w_transposed ? R : rows, out = job.w_transposed ? rows : R;
  std::vector<Gemm> products;
  for (std::int64_t i = 0; i < T * H; ++i)
    products.push_back({.a = part(job.x, i * X, 1, in),
                        .b = part(job.w, (i % H * G + job.begin) * R, rows, R),
                        .c = part(job.y, i * Y, 1, out),
                        .transpose_b = job.w_transposed});
  multiply(stream, products);
  for_float(job.x.dtype, [&]<class E>() {
    const E* x = job.x.as<E>();
    E* y = job.y.as<E>();
    for (std::int64_t i = 0; i < T * H; ++i) std::copy(x + i * X + in, x + (i + 1) * X, y + i * Y + out);
  });
}

}  // namespace strata::kernels
