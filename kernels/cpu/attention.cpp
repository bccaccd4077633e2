// y_i = sum_j p_ij v_j, p = softmax over the visible keys, one block of keys at a time: the running maximum m
// and sum l of every row rescale what was added before. Dao, FlashAttention-2, arXiv 2307.08691, algorithm 1.
#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

#include <omp.h>

#include <limits>

namespace strata::kernels {
namespace {

// Rows of a task: all query heads of one key head, this many query blocks of each, so that packed keys serve
// often.
std::int64_t blocks_per_task(std::int64_t group) { return std::max<std::int64_t>(1, 8 / group); }

// A task's memory. Query rows: [group, blocks per task, kBlock].
template <class A>
struct Working {
  A *query, *key, *key_t, *value, *scores, *out, *highest, *sum;

  Working(Pieces<A>& memory, const AttentionShape<A>& s) {
    const std::int64_t rows = s.group * blocks_per_task(s.group) * kBlock;
    query = memory.take(rows * s.key_row);
    key = memory.take(kBlock * s.key_row);
    key_t = memory.take(s.key * kBlock);
    value = memory.take(kBlock * s.value_row);
    scores = memory.take(kBlock * kBlock);
    out = memory.take(rows * s.value_row);
    highest = memory.take(rows);
    sum = memory.take(rows);
  }
};

// Scores become p = exp(score - m) of the row's new maximum; what was summed so far is rescaled to it.
template <class A>
void softmax_step(std::int64_t rows, std::int64_t columns, A* scores, A* highest, A* sum, A* out,
                  std::int64_t out_row) {
  for (std::int64_t i = 0; i < rows; ++i) {
    A* s = scores + i * kBlock;
    A top = highest[i];
#pragma omp simd reduction(max : top)
    for (std::int64_t j = 0; j < columns; ++j) top = s[j] > top ? s[j] : top;
    A total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = 0; j < columns; ++j) {
      s[j] = fast_exp(s[j] - top);
      total += s[j];
    }
    const A keep = fast_exp(highest[i] - top);
    sum[i] = sum[i] * keep + total;
    highest[i] = top;
    if (keep == A(1)) continue;
    for (std::int64_t c = 0; c < out_row; ++c) out[i * out_row + c] *= keep;
  }
}

template <class T>
class Task {
 public:
  using A = Acc<T>;
  Task(const AttentionForward& job, const AttentionShape<A>& shape, Pieces<A> memory, std::int64_t b,
       std::int64_t head, std::int64_t part)
      : job_(job),
        s_(shape),
        w_(memory, shape),
        token_(b * shape.length),
        query_(b * (shape.length - shape.past) - shape.past),
        head_(head),
        begin_(shape.past + part * blocks_per_task(shape.group) * kBlock),
        end_(std::min(shape.length, begin_ + blocks_per_task(shape.group) * kBlock)) {}

  void run() {
    start();
    for (std::int64_t k = 0; k < end_; k += kBlock) key_block(k);
    finish();
  }

 private:
  std::int64_t row_of(std::int64_t g, std::int64_t query) const {
    return g * blocks_per_task(s_.group) * kBlock + query - begin_;
  }

  void start() {
    for (std::int64_t g = 0; g < s_.group; ++g) {
      const std::int64_t first = row_of(g, begin_), rows = end_ - begin_;
      pack(HeadRows<T>(job_.q, head_ * s_.group + g, query_ + begin_), rows, s_.key, A(job_.scale),
           w_.query + first * s_.key_row, s_.key_row);
      std::fill_n(w_.out + first * s_.value_row, rows * s_.value_row, A(0));
      std::fill_n(w_.highest + first, rows, std::numeric_limits<A>::lowest() / 2);
      std::fill_n(w_.sum + first, rows, A(0));
    }
  }

  void key_block(std::int64_t k) {
    bool packed = false;
    const std::int64_t columns = s_.block_end(k) - k;
    const std::int32_t* documents = s_.documents ? s_.documents + token_ : nullptr;
    for (std::int64_t g = 0; g < s_.group; ++g)
      for (std::int64_t q = std::max(begin_, k); q < end_; q += kBlock) {
        const Tile tile{q, std::min(end_, q + kBlock) - q, k, columns, documents};
        const Sight sight = tile.sight();
        if (sight == Sight::None) continue;
        if (!packed) pack_block(k, columns);
        packed = true;
        add_tile(tile, sight, row_of(g, q));
      }
  }

  void pack_block(std::int64_t k, std::int64_t columns) {
    pack_keys<T>(s_, job_.k, job_.k_shared, head_, token_ + k, columns, w_.key);
    transpose(w_.key, columns, s_.key, s_.key_row, w_.key_t);
    pack(HeadRows<T>(job_.v, head_, token_ + k), columns, s_.value, A(1), w_.value, s_.value_row);
  }

  void add_tile(const Tile& tile, Sight sight, std::int64_t row) {
    block_product<A>(tile.rows, padded<A>(tile.columns), s_.key, {w_.query + row * s_.key_row, s_.key_row, 1},
                     w_.key_t, kBlock, w_.scores, kBlock, false);
    if (sight == Sight::Some) tile.hide(w_.scores, -std::numeric_limits<A>::infinity());
    A* out = w_.out + row * s_.value_row;
    softmax_step(tile.rows, tile.columns, w_.scores, w_.highest + row, w_.sum + row, out, s_.value_row);
    block_product<A>(tile.rows, s_.value_row, tile.columns, {w_.scores, kBlock, 1}, w_.value, s_.value_row,
                     out, s_.value_row, true);
  }

  void finish() {
    T* y = job_.y.as<T>();
    A* lse = job_.lse.as<A>();
    const std::int64_t tokens = s_.batch * (s_.length - s_.past);
    for (std::int64_t g = 0; g < s_.group; ++g)
      for (std::int64_t q = begin_; q < end_; ++q) {
        const std::int64_t row = row_of(g, q), head = head_ * s_.group + g, token = query_ + q;
        const A scale = A(1) / w_.sum[row];
        T* to = y + (token * s_.heads + head) * s_.value;
        for (std::int64_t c = 0; c < s_.value; ++c) to[c] = T(w_.out[row * s_.value_row + c] * scale);
        lse[head * tokens + token] = w_.highest[row] + std::log(w_.sum[row]);
      }
  }

  const AttentionForward& job_;
  const AttentionShape<A>& s_;
  Working<A> w_;
  // Rows of position 0 in the keys' and the queries' tensors (these hold no rows before begin_), and the
  // positions of the queries.
  std::int64_t token_, query_, head_, begin_, end_;
};

template <class T>
void forward(CpuStream& stream, const AttentionForward& job) {
  using A = Acc<T>;
  const AttentionShape<A> shape(job.q, job.k, job.v, job.k_shared, job.sequences);
  Pieces<A> sizes;
  const Working<A> measured(sizes, shape);
  const std::int64_t each = sizes.used();
  const std::int64_t rows = blocks_per_task(shape.group) * kBlock;
  const std::int64_t parts = (job.sequences.length + rows - 1) / rows;
  A* scratch = stream.scratch<A>(each * omp_get_max_threads());
  parallel_for(shape.batch * shape.key_heads * parts, [&](std::int64_t i) {
    const Pieces<A> memory(scratch + each * omp_get_thread_num());
    Task<T>(job, shape, memory, i / parts / shape.key_heads, i / parts % shape.key_heads, i % parts).run();
  });
}

}  // namespace

void run(CpuStream& stream, const AttentionForward& job) {
  for_float(job.q.tensor.dtype, [&]<class T>() { forward<T>(stream, job); });
}

}  // namespace strata::kernels
