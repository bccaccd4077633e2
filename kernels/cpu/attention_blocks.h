// What both passes of blocked attention share: extents, packed copies of a head's rows in Acc, and which
// pairs of a block of queries and a block of keys see each other.
#pragma once
#include <algorithm>

#include "kernels/cpu/block_product.h"
#include "kernels/cpu/pieces.h"
#include "kernels/jobs.h"

namespace strata::kernels {

constexpr std::int64_t kBlock = 64;  // queries, and keys, of a tile of scores

// Extents; *_row are the padded row lengths of packed copies. `length` counts keys, of which the queries are
// the last length - past.
template <class A>
struct AttentionShape {
  std::int64_t batch, length, past, heads, key_heads, group;  // group: query heads of a key head
  std::int64_t own, shared, key, value;                       // key = own + shared dims
  std::int64_t key_row, value_row;
  const std::int32_t* documents;

  AttentionShape(const Heads& q, const Heads& k, const Heads& v, const ConstView& k_shared,
                 const Sequences& s)
      : batch(s.batch),
        length(s.past + s.length),
        past(s.past),
        heads(q.heads),
        key_heads(k.heads),
        group(q.heads / k.heads),
        own(k.dim),
        shared(k_shared ? k_shared.dims[1] : 0),
        key(q.dim),
        value(v.dim),
        key_row(padded<A>(key)),
        value_row(padded<A>(value)),
        documents(s.documents.as<std::int32_t>()) {
    STRATA_CHECK(key == own + shared && v.heads == key_heads && group * key_heads == heads,
                 "attention: ", heads, " query heads of ", key, ", ", key_heads, " key heads of ", own, " + ",
                 shared, ", ", v.heads, " value heads");
    STRATA_CHECK(past == 0 || !documents, "attention: documents of earlier tokens are not known");
  }
  std::int64_t block_end(std::int64_t begin) const { return std::min(length, begin + kBlock); }
};

// A head's rows from token `token` on.
template <class T>
struct HeadRows {
  const T* data;
  std::int64_t stride;

  HeadRows(const Heads& x, std::int64_t head, std::int64_t token)
      : data(x.tensor.as<T>() + x.offset + token * x.token_stride + head * x.head_stride),
        stride(x.token_stride) {}
  HeadRows(const T* rows, std::int64_t row_stride) : data(rows), stride(row_stride) {}
};

// to [rows, row] = scale * the rows, columns from `dim` to `row` zero.
template <class T, class A>
void pack(const HeadRows<T>& x, std::int64_t rows, std::int64_t dim, A scale, A* to, std::int64_t row) {
  for (std::int64_t r = 0; r < rows; ++r, to += row) {
    const T* from = x.data + r * x.stride;
    for (std::int64_t i = 0; i < dim; ++i) to[i] = A(from[i]) * scale;
    for (std::int64_t i = dim; i < row; ++i) to[i] = 0;
  }
}

// to [dim, kBlock] = the packed rows transposed, columns from `rows` to the next whole vector zero.
template <class A>
void transpose(const A* x, std::int64_t rows, std::int64_t dim, std::int64_t row, A* to) {
  for (std::int64_t i = 0; i < dim; ++i, to += kBlock) {
    for (std::int64_t r = 0; r < rows; ++r) to[r] = x[r * row + i];
    for (std::int64_t r = rows; r < padded<A>(rows); ++r) to[r] = 0;
  }
}

// Keys of a block [begin, end) of one sequence: to [rows, key_row] = [k | k_shared].
template <class T, class A>
void pack_keys(const AttentionShape<A>& shape, const Heads& k, const ConstView& k_shared, std::int64_t head,
               std::int64_t token, std::int64_t rows, A* to) {
  pack(HeadRows<T>(k, head, token), rows, shape.own, A(1), to, shape.key_row);
  if (!shape.shared) return;
  const HeadRows<T> tail(k_shared.as<T>() + token * shape.shared, shape.shared);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < shape.shared; ++i)
      to[r * shape.key_row + shape.own + i] = A(tail.data[r * tail.stride + i]);
}

enum class Sight { None, Some, All };

// One tile: queries [query, query + rows) and keys [key, key + columns) of a sequence.
struct Tile {
  std::int64_t query, rows, key, columns;
  const std::int32_t* documents;  // of the sequence, or null

  bool visible(std::int64_t i, std::int64_t j) const {
    return key + j <= query + i && (!documents || documents[key + j] == documents[query + i]);
  }
  Sight sight() const {
    if (key > query + rows - 1) return Sight::None;
    const Sight causal = key + columns - 1 <= query ? Sight::All : Sight::Some;
    if (!documents) return causal;
    const auto [q_low, q_high] = std::minmax_element(documents + query, documents + query + rows);
    const auto [k_low, k_high] = std::minmax_element(documents + key, documents + key + columns);
    if (*q_high < *k_low || *k_high < *q_low) return Sight::None;
    return *q_low == *q_high && *k_low == *k_high ? causal : Sight::Some;
  }
  // Replaces what may not be seen, in scores [rows, kBlock].
  template <class A>
  void hide(A* scores, A by) const {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        scores[i * kBlock + j] = visible(i, j) ? scores[i * kBlock + j] : by;
  }
};

}  // namespace strata::kernels
