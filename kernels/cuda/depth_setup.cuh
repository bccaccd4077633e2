// From a depth job to what its kernels take: checks, tables of any length in device memory, queries
// u = query * key_norm, and convolutions lag by lag so that neighbours in a warp read neighbours in memory.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/depth_views.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/jobs.h"

namespace strata::cuda {

// A table travels as kernel arguments, which the launch copies: no host memory has to wait for the stream.
template <class Entry>
struct TablePart {
  static constexpr int kEntries = 3584 / sizeof(Entry);
  Entry at[kEntries];
};
template <class Entry>
__global__ void put_table_kernel(TablePart<Entry> part, int count, Entry* to) {
  if (int(threadIdx.x) < count) to[threadIdx.x] = part.at[threadIdx.x];
}
template <class Entry>
void put_table(StreamHandle stream, const std::vector<Entry>& table, Entry* to) {
  constexpr int kEntries = TablePart<Entry>::kEntries;
  for (std::size_t begin = 0; begin < table.size(); begin += kEntries) {
    const int count = int(std::min<std::size_t>(kEntries, table.size() - begin));
    TablePart<Entry> part{};
    std::copy_n(table.begin() + std::ptrdiff_t(begin), count, part.at);
    launch(put_table_kernel<Entry>, {1, unsigned(kEntries), 0, stream}, part, count, to + begin);
  }
}

// One target's query and, on the way back, where its gradients go.
template <class A>
struct Ask {
  const A *query, *key_norm;  // [M, D], [D]
  A *dquery = nullptr, *dkey_norm = nullptr;
};

template <class A>
__global__ void make_asks_kernel(const Ask<A>* asks, int views, std::int64_t width, A* to) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x, k = blockIdx.y;
  if (i < views * width) to[k * views * width + i] = asks[k].query[i] * asks[k].key_norm[i % width];
}

template <class A>
__global__ void make_taps_kernel(const DepthView<A>* views, std::int64_t width) {
  const DepthView<A> v = views[blockIdx.y];
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t lag = 0; i < width && lag < v.lags; ++lag)
    v.taps[lag * width + i] = v.conv[i * v.kernel + lag];
}

// du [K, M, D] goes on: dq += w du, dw += sum_r q_r du_r. A thread has a column of all targets, as they may
// share parameters.
template <class A>
__global__ void add_query_grads_kernel(const Ask<A>* asks, int targets, int views, std::int64_t width,
                                       const A* du) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= width) return;
  for (int k = 0; k < targets; ++k)
    for (int r = 0; r < views; ++r) {
      const Ask<A> ask = asks[k];
      const std::int64_t at = r * width + i;
      const A d = du[k * views * width + at];
      if (ask.dquery) ask.dquery[at] += ask.key_norm[i] * d;
      if (ask.dkey_norm) ask.dkey_norm[i] += ask.query[at] * d;
    }
}

template <class A>
class DepthSetup {
 public:
  DepthSetup(const char* job, const Dims& dims, const Sequences& sequences)
      : operands(job, dims[2]), depth_{dims[0], dims[2], 0, int(dims[1]), 0, 0, nullptr, nullptr, nullptr} {
    depth_.length = std::max<std::int64_t>(sequences.length, 1);
    const ConstView& documents = sequences.documents;
    depth_.documents = documents.as<std::int32_t>();
    STRATA_CHECK(!documents || documents.dims == Dims{dims[0]}, job, ": documents are ",
                 documents.dims.text());
  }

  Operands<A> operands;

  void add_source(const kernels::DepthSource& source, const Sequences& sequences,
                  const kernels::DepthSourceGrad& grad = {}) {
    const std::int64_t T = depth_.tokens, M = depth_.views, D = depth_.width;
    const bool streams = source.value.dims.rank == 3;
    const char* job = operands.job();
    STRATA_CHECK(sequences.tokens() == T, job, ": ", T, " tokens in ", sequences.batch, " sequences of ",
                 sequences.length);
    STRATA_CHECK(source.conv.empty() || (!streams && std::int64_t(source.conv.size()) == M - 1), job, ": ",
                 source.conv.size(), " convolutions for ", M, " views");
    const auto value = operands.input(source.value, streams ? Dims{T, M, D} : Dims{T, D}, "source");
    for (std::int64_t r = 0; r < M; ++r) {
      DepthView<A> v{.value = value, .row = streams ? M * D : D};
      if (streams)
        v.value.data = static_cast<const std::byte*>(value.data) + r * D * size_of(source.value.dtype);
      if (r > 0 && !source.conv.empty()) add_conv(v, r, source, grad);
      seen_.push_back(v);
    }
    ++depth_.sources;
  }

  void add_ask(const kernels::DepthQuery& ask, const View& dquery = {}, const View& dkey_norm = {}) {
    const std::int64_t M = depth_.views, D = depth_.width;
    const auto dims = [&](const auto& view) { return M == 1 && view.dims.rank == 1 ? Dims{D} : Dims{M, D}; };
    asks_.push_back(
        {operands.full(ask.query, dims(ask.query), "query"), operands.full(ask.key_norm, {D}, "key_norm"),
         operands.full(dquery, dims(dquery), "dquery"), operands.full(dkey_norm, {D}, "dkey_norm")});
    ++depth_.targets;
  }

  // Before put().
  void take(ScratchPieces& pieces) {
    seen_table_ = pieces.take<DepthView<A>>(std::int64_t(seen_.size()));
    ask_table_ = pieces.take<Ask<A>>(std::int64_t(asks_.size()));
    made_asks_ = pieces.take<A>(depth_.targets * depth_.views * depth_.width);
    for (DepthView<A>& v : seen_) v.taps = v.lags ? pieces.take<A>(v.lags * depth_.width) : nullptr;
  }
  // Launches what makes tables, taps and queries.
  void put(StreamHandle stream) {
    const std::int64_t M = depth_.views, D = depth_.width;
    put_table(stream, seen_, seen_table_);
    put_table(stream, asks_, ask_table_);
    if (reach_ > 0 || std::any_of(seen_.begin(), seen_.end(), [](const auto& v) { return v.lags > 0; }))
      launch(make_taps_kernel<A>, {dim3(blocks_for(D, 128), unsigned(seen_.size())), 128, 0, stream},
             seen_table_, D);
    if (depth_.targets > 0)
      launch(make_asks_kernel<A>, {dim3(blocks_for(M * D, 128), unsigned(depth_.targets)), 128, 0, stream},
             ask_table_, int(M), D, made_asks_);
    depth_.seen = seen_table_;
    depth_.asks = made_asks_;
  }
  const Depth<A>& depth() const { return depth_; }
  const std::vector<DepthView<A>>& seen() const { return seen_; }
  std::int64_t reach() const { return reach_; }  // rows before a token that its views see

  void add_query_grads(StreamHandle stream, const A* du) const {
    launch(add_query_grads_kernel<A>, {blocks_for(depth_.width, 128), 128, 0, stream}, ask_table_,
           depth_.targets, depth_.views, depth_.width, du);
  }

 private:
  void add_conv(DepthView<A>& v, std::int64_t r, const kernels::DepthSource& source,
                const kernels::DepthSourceGrad& grad) {
    const ConstView& conv = source.conv[std::size_t(r - 1)];
    const Dims dims{depth_.width, conv.dims[1]};
    v.kernel = conv.dims[1];
    v.lags = std::min(v.kernel, depth_.length);
    v.conv = operands.full(conv, dims, "convolution");
    if (std::size_t(r) <= grad.dconv.size())
      v.dconv = operands.full(grad.dconv[std::size_t(r - 1)], dims, "dconv");
    reach_ = std::max(reach_, v.lags - 1);
  }

  Depth<A> depth_;
  std::vector<DepthView<A>> seen_;
  std::vector<Ask<A>> asks_;
  DepthView<A>* seen_table_ = nullptr;
  Ask<A>* ask_table_ = nullptr;
  A* made_asks_ = nullptr;
  std::int64_t reach_ = 0;
};

}  // namespace strata::cuda
