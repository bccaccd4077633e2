// c (+)= op(a) op(b). float32 and bfloat16 go to oneDNN, float64 to CBLAS. An operand of another type than
// the one multiplied is converted block by block; bfloat16 is multiplied as such only where the CPU can.
// oneDNN packs an operand whose rows run along the sum some columns at a time: where the rows lie a multiple
// of a page apart, those columns share their cache sets, which costs a quarter of the speed. Such blocks are
// copied first.
#include "kernels/cpu/matmul.h"

#include <cblas.h>
#include <dnnl.h>
#include <omp.h>

#include <exception>

// Exported by oneDNN beside dnnl_sgemm, but missing in its headers.
extern "C" dnnl_status_t dnnl_gemm_bf16bf16f32(char transpose_a, char transpose_b, dnnl_dim_t m, dnnl_dim_t n,
                                               dnnl_dim_t k, float alpha, const std::uint16_t* a,
                                               dnnl_dim_t lda, const std::uint16_t* b, dnnl_dim_t ldb,
                                               float beta, float* c, dnnl_dim_t ldc);

namespace strata::kernels {
namespace {

constexpr std::int64_t kDepth = 512;  // of a block that is converted or copied
constexpr std::int64_t kPage = 4096;

struct Size {
  std::int64_t m, n, k;
};

struct Tile {
  const Gemm* product;
  std::int64_t row, rows, column, columns;
};

// Part of a matrix as it is stored.
template <class T>
struct Block {
  const T* data;
  std::int64_t stride;
  bool transposed;
  char letter() const { return transposed ? 'T' : 'N'; }
};

Size size_of(const Gemm& g) {
  STRATA_CHECK(g.a.dims.rank == 2 && g.b.dims.rank == 2 && g.c.dims.rank == 2, "gemm takes matrices, not ",
               g.a.dims.text(), " ", g.b.dims.text(), " ", g.c.dims.text());
  const Size s{g.c.dims[0], g.c.dims[1], g.a.dims[g.transpose_a ? 0 : 1]};
  STRATA_CHECK(g.a.dims[g.transpose_a ? 1 : 0] == s.m && g.b.dims[g.transpose_b ? 0 : 1] == s.n &&
                   g.b.dims[g.transpose_b ? 1 : 0] == s.k,
               "gemm of ", g.a.dims.text(), g.transpose_a ? "^T" : "", " and ", g.b.dims.text(),
               g.transpose_b ? "^T" : "", " into ", g.c.dims.text());
  return s;
}

DType multiplied_type(const Gemm& g) {
  const auto any = [&](DType t) { return g.a.dtype == t || g.b.dtype == t || g.c.dtype == t; };
  if (any(DType::Float64)) return DType::Float64;
  const bool bf16 = g.a.dtype == DType::BFloat16 && g.b.dtype == DType::BFloat16;
  return bf16 && dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core_bf16 ? DType::BFloat16
                                                                               : DType::Float32;
}

void blas(const Size& s, const Block<float>& a, const Block<float>& b, float beta, float* c,
          std::int64_t ldc) {
  const auto status =
      dnnl_sgemm(a.letter(), b.letter(), s.m, s.n, s.k, 1, a.data, a.stride, b.data, b.stride, beta, c, ldc);
  STRATA_CHECK(status == dnnl_success, "dnnl_sgemm gave ", status);
}

void blas(const Size& s, const Block<bfloat16>& a, const Block<bfloat16>& b, float beta, float* c,
          std::int64_t ldc) {
  const auto bits = [](const bfloat16* x) { return reinterpret_cast<const std::uint16_t*>(x); };
  const auto status = dnnl_gemm_bf16bf16f32(a.letter(), b.letter(), s.m, s.n, s.k, 1, bits(a.data), a.stride,
                                            bits(b.data), b.stride, beta, c, ldc);
  STRATA_CHECK(status == dnnl_success, "dnnl_gemm_bf16bf16f32 gave ", status);
}

void blas(const Size& s, const Block<double>& a, const Block<double>& b, double beta, double* c,
          std::int64_t ldc) {
  const auto how = [](bool transposed) { return transposed ? CblasTrans : CblasNoTrans; };
  cblas_dgemm(CblasRowMajor, how(a.transposed), how(b.transposed), int(s.m), int(s.n), int(s.k), 1, a.data,
              int(a.stride), b.data, int(b.stride), beta, c, int(ldc));
}

// Whether oneDNN takes x as it is. along_sum: a row of x belongs to one term of the sum.
template <class T>
bool fits(const ConstView& x, bool along_sum) {
  if (x.dtype != dtype_of<T>()) return false;
  return std::is_same_v<T, double> || !along_sum || x.dims[1] * std::int64_t(sizeof(T)) % kPage != 0;
}

// Rows and columns of op(x), in place if `whole`, else converted or copied into the buffer.
template <class T>
Block<T> block(const ConstView& x, bool whole, bool transposed, std::int64_t row, std::int64_t rows,
               std::int64_t column, std::int64_t columns, T* buffer) {
  if (transposed) {
    std::swap(row, column);
    std::swap(rows, columns);
  }
  const std::int64_t stride = x.dims[1], first = row * stride + column;
  if (whole) return {x.as<T>() + first, stride, transposed};
  for_float(x.dtype, [&]<class From>() {
    const From* from = x.as<From>() + first;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < columns; ++i) buffer[r * columns + i] = T(from[r * stride + i]);
  });
  return {buffer, columns, transposed};
}

template <class A>
void store(const Tile& t, const A* sums) {
  const View& c = t.product->c;
  for_float(c.dtype, [&]<class To>() {
    for (std::int64_t r = 0; r < t.rows; ++r) {
      To* to = c.as<To>() + (t.row + r) * c.dims[1] + t.column;
      const A* from = sums + r * t.columns;
      if (t.product->mode == Write::Accumulate)
        for (std::int64_t i = 0; i < t.columns; ++i) to[i] = To(A(to[i]) + from[i]);
      else
        for (std::int64_t i = 0; i < t.columns; ++i) to[i] = To(from[i]);
    }
  });
}

// Elements of scratch, in units of 8 bytes: blocks of a and b, and the sums where c has another type.
std::int64_t buffer_size(std::int64_t side) { return 2 * side * kDepth + side * side; }

template <class T>
void compute(const Tile& t, double* scratch, std::int64_t side) {
  using A = Acc<T>;
  const Gemm& g = *t.product;
  const std::int64_t depth = size_of(g).k;
  T* const block_a = reinterpret_cast<T*>(scratch);
  T* const block_b = reinterpret_cast<T*>(scratch + side * kDepth);
  const bool in_place = g.c.dtype == dtype_of<A>();
  const std::int64_t stride = in_place ? g.c.dims[1] : t.columns;
  A* const c =
      in_place ? g.c.as<A>() + t.row * stride + t.column : reinterpret_cast<A*>(scratch + 2 * side * kDepth);
  bool add = in_place && g.mode == Write::Accumulate;
  if (depth == 0 && !add)
    for (std::int64_t r = 0; r < t.rows; ++r) std::fill_n(c + r * stride, t.columns, A(0));
  const bool whole_a = fits<T>(g.a, g.transpose_a), whole_b = fits<T>(g.b, !g.transpose_b);
  const std::int64_t step = whole_a && whole_b ? depth : kDepth;
  for (std::int64_t k = 0; k < depth; k += step, add = true) {
    const Size size{t.rows, t.columns, std::min(step, depth - k)};
    const auto a = block<T>(g.a, whole_a, g.transpose_a, t.row, t.rows, k, size.k, block_a);
    const auto b = block<T>(g.b, whole_b, g.transpose_b, k, size.k, t.column, t.columns, block_b);
    blas(size, a, b, A(add), c, stride);
  }
  if (!in_place) store(t, c);
}

std::int64_t count_tiles(const std::vector<Gemm>& products, std::int64_t side) {
  std::int64_t count = 0;
  for (const Gemm& g : products)
    count += ((g.c.dims[0] + side - 1) / side) * ((g.c.dims[1] + side - 1) / side);
  return count;
}

// Large tiles multiply fastest; small ones where there would be too few for the threads of any machine.
std::int64_t choose_side(const std::vector<Gemm>& products) {
  for (const std::int64_t side : {256, 128})
    if (count_tiles(products, side) >= 16) return side;
  return 64;
}

}  // namespace

void multiply(CpuStream& stream, const std::vector<Gemm>& products) {
  const std::int64_t side = choose_side(products);
  std::vector<Tile> tiles;
  for (const Gemm& g : products) {
    const Size s = size_of(g);
    for (std::int64_t i = 0; i < s.m; i += side)
      for (std::int64_t j = 0; j < s.n; j += side)
        tiles.push_back({&g, i, std::min(side, s.m - i), j, std::min(side, s.n - j)});
  }
  if (tiles.empty()) return;
  double* const scratch = stream.scratch<double>(omp_get_max_threads() * buffer_size(side));
  std::exception_ptr error;
  // Parallel even for one tile: inside a parallel region the libraries use one thread.
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    try {
      double* const mine = scratch + omp_get_thread_num() * buffer_size(side);
      for_float(multiplied_type(*tiles[i].product), [&]<class T>() { compute<T>(tiles[i], mine, side); });
    } catch (...) {
#pragma omp critical(strata_multiply_error)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace strata::kernels
