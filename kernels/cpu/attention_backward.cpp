// ds = p (dout.v - delta), delta_i = dout_i.out_i;  dq = scale sum_j ds_ij k_j, dk = scale sum_i ds_ij q_i,
// dv_j = sum_i p_ij dout_i, p = exp(score - lse) computed again tile by tile. FlashAttention-2, algorithm 2.
// A task is a key head of a sequence with all its query heads: its sums have one order. The shared key part
// is summed over key heads at the end.
#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

#include <omp.h>

namespace strata::kernels {
namespace {

// A task's memory. Query rows: [group, length].
template <class A>
struct Working {
  A *query, *dout, *dquery, *delta, *lse;                     // rows of the whole task
  A *key, *key_t, *value, *value_t, *dkey, *dvalue, *p, *ds;  // one block of keys

  Working(Pieces<A>& memory, const AttentionShape<A>& s) {
    const std::int64_t rows = s.group * s.length;
    query = memory.take(rows * s.key_row);
    dout = memory.take(rows * s.value_row);
    dquery = memory.take(rows * s.key_row);
    delta = memory.take(rows);
    lse = memory.take(rows);
    key = memory.take(kBlock * s.key_row);
    key_t = memory.take(s.key * kBlock);
    value = memory.take(kBlock * s.value_row);
    value_t = memory.take(s.value * kBlock);
    dkey = memory.take(kBlock * s.key_row);
    dvalue = memory.take(kBlock * s.value_row);
    p = memory.take(kBlock * kBlock);
    ds = memory.take(kBlock * kBlock);
  }
};

// Stores `dim` columns of packed rows, times scale, in a head's gradient.
template <class T, class A>
void unpack(const A* from, std::int64_t row, std::int64_t rows, A scale, const HeadsGrad& to,
            std::int64_t head, std::int64_t token) {
  if (!to.tensor) return;
  T* data = to.tensor.view.as<T>() + to.offset + token * to.token_stride + head * to.head_stride;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < to.dim; ++i)
      put(data[r * to.token_stride + i], from[r * row + i] * scale, to.tensor.mode);
}

template <class T>
class Task {
 public:
  using A = Acc<T>;
  // dshared [length, shared]: this head's share.
  Task(const AttentionBackward& job, const AttentionShape<A>& shape, Pieces<A> memory, A* dshared,
       std::int64_t b, std::int64_t head)
      : job_(job), s_(shape), w_(memory, shape), dshared_(dshared), token_(b * shape.length), head_(head) {}

  void run() {
    start();
    for (std::int64_t k = 0; k < s_.length; k += kBlock) key_block(k);
    for (std::int64_t g = 0; g < s_.group; ++g)
      unpack<T>(w_.dquery + g * s_.length * s_.key_row, s_.key_row, s_.length, A(job_.scale), job_.dq,
                head_ * s_.group + g, token_);
  }

 private:
  void start() {
    const std::int64_t out_stride = s_.heads * s_.value;
    for (std::int64_t g = 0; g < s_.group; ++g) {
      const std::int64_t row = g * s_.length, head = head_ * s_.group + g;
      const std::int64_t out_offset = token_ * out_stride + head * s_.value;
      A* dout = w_.dout + row * s_.value_row;
      pack(HeadRows<T>(job_.q, head, token_), s_.length, s_.key, A(job_.scale), w_.query + row * s_.key_row,
           s_.key_row);
      pack(HeadRows<T>(job_.dy.as<T>() + out_offset, out_stride), s_.length, s_.value, A(1), dout,
           s_.value_row);
      const T* out = job_.y.as<T>() + out_offset;
      for (std::int64_t t = 0; t < s_.length; ++t) {
        A dot = 0;
#pragma omp simd reduction(+ : dot)
        for (std::int64_t c = 0; c < s_.value; ++c)
          dot += dout[t * s_.value_row + c] * A(out[t * out_stride + c]);
        w_.delta[row + t] = dot;
      }
      std::copy_n(job_.lse.as<A>() + head * s_.batch * s_.length + token_, s_.length, w_.lse + row);
    }
    std::fill_n(w_.dquery, s_.group * s_.length * s_.key_row, A(0));
  }

  void key_block(std::int64_t k) {
    const std::int64_t columns = s_.block_end(k) - k;
    const std::int32_t* documents = s_.documents ? s_.documents + token_ : nullptr;
    pack_block(k, columns);
    for (std::int64_t g = 0; g < s_.group; ++g)
      for (std::int64_t q = k; q < s_.length; q += kBlock) {
        const Tile tile{q, s_.block_end(q) - q, k, columns, documents};
        const Sight sight = tile.sight();
        if (sight != Sight::None) add_tile(tile, sight, g * s_.length + q);
      }
    unpack<T>(w_.dkey, s_.key_row, columns, A(1), job_.dk, head_, token_ + k);
    unpack<T>(w_.dvalue, s_.value_row, columns, A(1), job_.dv, head_, token_ + k);
    for (std::int64_t r = 0; r < columns; ++r)
      std::copy_n(w_.dkey + r * s_.key_row + s_.own, s_.shared, dshared_ + (k + r) * s_.shared);
  }

  void pack_block(std::int64_t k, std::int64_t columns) {
    pack_keys<T>(s_, job_.k, job_.k_shared, head_, token_ + k, columns, w_.key);
    transpose(w_.key, columns, s_.key, s_.key_row, w_.key_t);
    pack(HeadRows<T>(job_.v, head_, token_ + k), columns, s_.value, A(1), w_.value, s_.value_row);
    transpose(w_.value, columns, s_.value, s_.value_row, w_.value_t);
    std::fill_n(w_.dkey, kBlock * s_.key_row, A(0));
    std::fill_n(w_.dvalue, kBlock * s_.value_row, A(0));
  }

  void add_tile(const Tile& tile, Sight sight, std::int64_t row) {
    const A *query = w_.query + row * s_.key_row, *dout = w_.dout + row * s_.value_row;
    const std::int64_t columns = padded<A>(tile.columns);
    block_product<A>(tile.rows, columns, s_.key, {query, s_.key_row, 1}, w_.key_t, kBlock, w_.p, kBlock,
                     false);
    block_product<A>(tile.rows, columns, s_.value, {dout, s_.value_row, 1}, w_.value_t, kBlock, w_.ds, kBlock,
                     false);
    for (std::int64_t i = 0; i < tile.rows; ++i)
      for (std::int64_t j = 0; j < tile.columns; ++j)
        w_.p[i * kBlock + j] = fast_exp(w_.p[i * kBlock + j] - w_.lse[row + i]);
    if (sight == Sight::Some) tile.hide(w_.p, A(0));
    for (std::int64_t i = 0; i < tile.rows; ++i)
      for (std::int64_t j = 0; j < tile.columns; ++j)
        w_.ds[i * kBlock + j] = w_.p[i * kBlock + j] * (w_.ds[i * kBlock + j] - w_.delta[row + i]);
    block_product<A>(tile.columns, s_.value_row, tile.rows, {w_.p, 1, kBlock}, dout, s_.value_row, w_.dvalue,
                     s_.value_row, true);
    block_product<A>(tile.columns, s_.key_row, tile.rows, {w_.ds, 1, kBlock}, query, s_.key_row, w_.dkey,
                     s_.key_row, true);
    block_product<A>(tile.rows, s_.key_row, tile.columns, {w_.ds, kBlock, 1}, w_.key, s_.key_row,
                     w_.dquery + row * s_.key_row, s_.key_row, true);
  }

  const AttentionBackward& job_;
  const AttentionShape<A>& s_;
  Working<A> w_;
  A* dshared_;
  std::int64_t token_, head_;
};

// dk_shared (+)= sum over key heads of partial [batch, key heads, length, shared], heads in order.
template <class T, class A>
void sum_heads(const AttentionShape<A>& s, const A* partial, const Grad& dk_shared) {
  if (!dk_shared) return;
  T* to = dk_shared.view.as<T>();
  parallel_for(s.batch * s.length, [&](std::int64_t t) {
    const A* from = partial + (t / s.length * s.key_heads * s.length + t % s.length) * s.shared;
    for (std::int64_t i = 0; i < s.shared; ++i) {
      A sum = 0;
      for (std::int64_t h = 0; h < s.key_heads; ++h) sum += from[h * s.length * s.shared + i];
      put(to[t * s.shared + i], sum, dk_shared.mode);
    }
  });
}

template <class T>
void backward(CpuStream& stream, const AttentionBackward& job) {
  using A = Acc<T>;
  const AttentionShape<A> shape(job.q, job.k, job.v, job.k_shared, job.sequences);
  const std::int64_t tasks = shape.batch * shape.key_heads, share = shape.length * shape.shared;
  Pieces<A> sizes;
  const Working<A> measured(sizes, shape);
  const std::int64_t each = sizes.used(), threads = std::min<std::int64_t>(omp_get_max_threads(), tasks);
  A* scratch = stream.scratch<A>(each * threads + tasks * share);
  A* partial = scratch + each * threads;
  parallel_for(tasks, [&](std::int64_t i) {
    const Pieces<A> memory(scratch + each * omp_get_thread_num());
    Task<T>(job, shape, memory, partial + i * share, i / shape.key_heads, i % shape.key_heads).run();
  });
  sum_heads<T>(shape, partial, job.dk_shared);
}

}  // namespace

void run(CpuStream& stream, const AttentionBackward& job) {
  for_float(job.q.tensor.dtype, [&]<class T>() { backward<T>(stream, job); });
}

}  // namespace strata::kernels
