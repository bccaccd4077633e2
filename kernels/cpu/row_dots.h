// c_ij = x_i . y_j for rows that lie in cache, padded with zeros to whole aligned vectors. Every pair has a
// vector of sums of its own, folded in a fixed order: its bits do not depend on the rows next to it.
#pragma once
#include <algorithm>

#include "kernels/cpu/block_product.h"

namespace strata::kernels {

template <class A>
struct Rows {
  const A* data;
  std::int64_t row;  // elements from one to the next
};

template <class A, class Vector>
inline A folded(const Vector& sum) {
  A lanes[kLanes<A>];
  for (int l = 0; l < kLanes<A>; ++l) lanes[l] = sum[l];
  for (int half = kLanes<A> / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

template <class A, int kRows, int kColumns>
inline void dots_tile(Rows<A> x, Rows<A> y, std::int64_t depth, A* c, std::int64_t c_row) {
  typedef A Vector __attribute__((vector_size(kVectorBytes), may_alias));
  Vector sum[kRows][kColumns] = {};
  for (std::int64_t k = 0; k < depth; k += kLanes<A>) {
    Vector right[kColumns];
    for (int j = 0; j < kColumns; ++j) right[j] = *reinterpret_cast<const Vector*>(y.data + j * y.row + k);
    for (int i = 0; i < kRows; ++i) {
      const Vector left = *reinterpret_cast<const Vector*>(x.data + i * x.row + k);
      for (int j = 0; j < kColumns; ++j) sum[i][j] += left * right[j];
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) c[i * c_row + j] = folded<A>(sum[i][j]);
}

template <class A, int kRows>
inline void dots_rows(std::int64_t columns, Rows<A> x, Rows<A> y, std::int64_t depth, A* c,
                      std::int64_t c_row) {
  constexpr int kColumns = kRows <= 2 ? 4 : 2;
  std::int64_t j = 0;
  for (; j + kColumns <= columns; j += kColumns)
    dots_tile<A, kRows, kColumns>(x, {y.data + j * y.row, y.row}, depth, c + j, c_row);
  for (; j < columns; ++j) dots_tile<A, kRows, 1>(x, {y.data + j * y.row, y.row}, depth, c + j, c_row);
}

// c [rows, columns], rows c_row apart.
template <class A>
void row_dots(std::int64_t rows, std::int64_t columns, Rows<A> x, Rows<A> y, std::int64_t depth, A* c,
              std::int64_t c_row) {
  std::int64_t i = 0;
  for (; i + 4 <= rows; i += 4)
    dots_rows<A, 4>(columns, {x.data + i * x.row, x.row}, y, depth, c + i * c_row, c_row);
  for (; i + 2 <= rows; i += 2)
    dots_rows<A, 2>(columns, {x.data + i * x.row, x.row}, y, depth, c + i * c_row, c_row);
  for (; i < rows; ++i) dots_rows<A, 1>(columns, {x.data + i * x.row, x.row}, y, depth, c + i * c_row, c_row);
}

// c_i = x_i . x_i, with the bits of dot().
template <class A>
void row_squares(std::int64_t rows, Rows<A> x, std::int64_t depth, A* c) {
  typedef A Vector __attribute__((vector_size(kVectorBytes), may_alias));
  constexpr int kTogether = 4;
  for (std::int64_t first = 0; first < rows; first += kTogether) {
    const A* row[kTogether];
    for (int i = 0; i < kTogether; ++i) row[i] = x.data + std::min(first + i, rows - 1) * x.row;
    Vector sum[kTogether] = {};
    for (std::int64_t k = 0; k < depth; k += kLanes<A>)
      for (int i = 0; i < kTogether; ++i) {
        const Vector v = *reinterpret_cast<const Vector*>(row[i] + k);
        sum[i] += v * v;
      }
    for (int i = 0; i < kTogether && first + i < rows; ++i) c[first + i] = folded<A>(sum[i]);
  }
}

template <class A>
A dot(const A* x, const A* y, std::int64_t depth) {
  A c;
  dots_tile<A, 1, 1>({x, 0}, {y, 0}, depth, &c, 1);
  return c;
}

}  // namespace strata::kernels
