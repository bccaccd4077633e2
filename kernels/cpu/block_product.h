// c (+)= a b for blocks that lie in cache: the inner product of attention. Written with the compiler's vector
// type, so that a tile of c stays in registers whatever the instruction set: 6 rows by 2 vectors, a value of
// `a` broadcast.
#pragma once
#include <cstdint>

namespace strata::kernels {

#ifdef __AVX512F__
constexpr std::int64_t kVectorBytes = 64;
#else
constexpr std::int64_t kVectorBytes = 32;
#endif
// Elements of a vector. Rows of `b` and `c` are padded to a multiple of it and aligned to it.
template <class A>
constexpr std::int64_t kLanes = kVectorBytes / std::int64_t(sizeof(A));
template <class A>
constexpr std::int64_t padded(std::int64_t n) {
  return (n + kLanes<A> - 1) / kLanes<A> * kLanes<A>;
}

// The left factor, element (i, k) at data[i * row + k * column]: a transposed factor is no other case.
template <class A>
struct LeftFactor {
  const A* data;
  std::int64_t row, column;
};

template <class A, int kRows, int kVectors>
inline void product_tile(LeftFactor<A> a, std::int64_t depth, const A* b, std::int64_t b_row, A* c,
                         std::int64_t c_row, bool accumulate) {
  typedef A Vector __attribute__((vector_size(kVectorBytes), may_alias));
  Vector sum[kRows][kVectors] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    const auto* from = reinterpret_cast<const Vector*>(b + k * b_row);
    for (int i = 0; i < kRows; ++i) {
      const A value = a.data[i * a.row + k * a.column];
      for (int v = 0; v < kVectors; ++v) sum[i][v] += value * from[v];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    auto* to = reinterpret_cast<Vector*>(c + i * c_row);
    for (int v = 0; v < kVectors; ++v) to[v] = accumulate ? to[v] + sum[i][v] : sum[i][v];
  }
}

// Tiles of kRows rows while they fit; the first row that is left.
template <class A, int kRows, int kVectors>
inline std::int64_t product_tiles(std::int64_t i, std::int64_t rows, LeftFactor<A> a, std::int64_t depth,
                                  const A* b, std::int64_t b_row, A* c, std::int64_t c_row, bool accumulate) {
  for (; i + kRows <= rows; i += kRows)
    product_tile<A, kRows, kVectors>({a.data + i * a.row, a.row, a.column}, depth, b, b_row, c + i * c_row,
                                     c_row, accumulate);
  return i;
}

template <class A, int kVectors>
inline void product_rows(std::int64_t rows, LeftFactor<A> a, std::int64_t depth, const A* b,
                         std::int64_t b_row, A* c, std::int64_t c_row, bool accumulate) {
  std::int64_t i = product_tiles<A, 6, kVectors>(0, rows, a, depth, b, b_row, c, c_row, accumulate);
  i = product_tiles<A, 4, kVectors>(i, rows, a, depth, b, b_row, c, c_row, accumulate);
  i = product_tiles<A, 2, kVectors>(i, rows, a, depth, b, b_row, c, c_row, accumulate);
  product_tiles<A, 1, kVectors>(i, rows, a, depth, b, b_row, c, c_row, accumulate);
}

// c [rows, columns] (+)= a [rows, depth] b [depth, columns]; columns is a multiple of kLanes.
template <class A>
void block_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, LeftFactor<A> a, const A* b,
                   std::int64_t b_row, A* c, std::int64_t c_row, bool accumulate) {
  std::int64_t j = 0;
  for (; j + 2 * kLanes<A> <= columns; j += 2 * kLanes<A>)
    product_rows<A, 2>(rows, a, depth, b + j, b_row, c + j, c_row, accumulate);
  if (j < columns) product_rows<A, 1>(rows, a, depth, b + j, b_row, c + j, c_row, accumulate);
}

}  // namespace strata::kernels
