// y = w * x / sqrt(mean(x^2) + eps), one warp a row; and its gradients:
// dx = rstd (g - x rstd^2 mean(g x)), g = dy w;  dw = sum_t dy x rstd.
#include "kernels/cuda/chunks.cuh"
#include "kernels/cuda/jobs.h"
#include "kernels/cuda/operands.cuh"
#include "kernels/cuda/reduce.cuh"

namespace strata::kernels {
namespace {

using namespace strata::cuda;

constexpr int kThreads = 128, kRowsPerBlock = kThreads / 32;

template <class A, int kPack>
__device__ __forceinline__ Pack<A, kPack> gain(const A* weight, std::int64_t i) {
  if (weight) return load_pack<kPack>(weight + i);
  Pack<A, kPack> ones;
  UNROLL for (int n = 0; n < kPack; ++n) ones.at[n] = A(1);
  return ones;
}

template <class A, int kPack>
__global__ void forward_kernel(Input<A> x, const A* weight, Output<A> y, A* rstd, std::int64_t rows,
                               std::int64_t width, A eps) {
  const std::int64_t row = std::int64_t(blockIdx.x) * kRowsPerBlock + threadIdx.x / 32;
  const std::int64_t lane = threadIdx.x % 32 * kPack;
  if (row >= rows) return;
  A squares = 0;
  for (std::int64_t i = lane; i < width; i += 32 * kPack) {
    const auto v = load<kPack>(x, row * width + i);
    squares += dot(v, v);
  }
  const A scale = A(1) / std::sqrt(warp_sum(squares) / A(width) + eps);
  if (lane == 0) rstd[row] = scale;
  for (std::int64_t i = lane; y.data && i < width; i += 32 * kPack) {
    auto v = load<kPack>(x, row * width + i);
    const auto w = gain<A, kPack>(weight, i);
    UNROLL for (int n = 0; n < kPack; ++n) v.at[n] *= scale * w.at[n];
    store(y, row * width + i, v);
  }
}

template <class A, int kPack>
__global__ void input_grad_kernel(Input<A> dy, Input<A> x, const A* weight, const A* rstd, Output<A> dx,
                                  std::int64_t rows, std::int64_t width) {
  const std::int64_t row = std::int64_t(blockIdx.x) * kRowsPerBlock + threadIdx.x / 32;
  const std::int64_t lane = threadIdx.x % 32 * kPack;
  if (row >= rows) return;
  A product = 0;
  for (std::int64_t i = lane; i < width; i += 32 * kPack) {
    auto g = load<kPack>(dy, row * width + i);
    const auto w = gain<A, kPack>(weight, i);
    UNROLL for (int n = 0; n < kPack; ++n) g.at[n] *= w.at[n];
    product += dot(g, load<kPack>(x, row * width + i));
  }
  const A scale = rstd[row], pull = warp_sum(product) * scale * scale / A(width);
  for (std::int64_t i = lane; i < width; i += 32 * kPack) {
    auto g = load<kPack>(dy, row * width + i);
    const auto v = load<kPack>(x, row * width + i), w = gain<A, kPack>(weight, i);
    UNROLL for (int n = 0; n < kPack; ++n) g.at[n] = scale * (g.at[n] * w.at[n] - v.at[n] * pull);
    store(dx, row * width + i, g);
  }
}

// One thread kPack columns of one chunk: parts [chunk, width].
template <class A, int kPack>
__global__ void weight_grad_kernel(Input<A> dy, Input<A> x, const A* rstd, TokenChunks chunks,
                                   std::int64_t width, A* parts) {
  const std::int64_t i = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * kPack, chunk = blockIdx.y;
  if (i >= width) return;
  auto sum = zeros<A, kPack>();
  for (std::int64_t t = chunks.begin(chunk); t < chunks.end(chunk); ++t) {
    const auto g = load<kPack>(dy, t * width + i), v = load<kPack>(x, t * width + i);
    UNROLL for (int n = 0; n < kPack; ++n) sum.at[n] += g.at[n] * v.at[n] * rstd[t];
  }
  store_pack(parts + chunk * width + i, sum);
}

template <class A>
void forward(CudaStream& stream, const RmsNormForward& job) {
  STRATA_CHECK(job.x.dims.rank == 2, "rms_norm: x is ", job.x.dims.text(), ", not [T, D]");
  const std::int64_t rows = job.x.dims[0], width = job.x.dims[1];
  Operands<A> operands(job.kName, width);
  const auto x = operands.input(job.x, {rows, width}, "x");
  const A* weight = operands.full(job.weight, {width}, "weight");
  const auto y = operands.output(job.y, {rows, width}, "y");
  A* rstd = operands.full(job.rstd, {rows}, "rstd");
  if (rows == 0) return;
  operands.with_packs([&]<int kPack>() {
    launch(forward_kernel<A, kPack>, {blocks_for(rows, kRowsPerBlock), kThreads, 0, stream.handle()}, x,
           weight, y, rstd, rows, width, A(job.eps));
  });
}

template <class A>
void backward(CudaStream& stream, const RmsNormBackward& job) {
  STRATA_CHECK(job.x.dims.rank == 2, "rms_norm_backward: x is ", job.x.dims.text(), ", not [T, D]");
  const std::int64_t rows = job.x.dims[0], width = job.x.dims[1];
  Operands<A> operands(job.kName, width);
  const auto x = operands.input(job.x, {rows, width}, "x"), dy = operands.input(job.dy, {rows, width}, "dy");
  const A* weight = operands.full(job.weight, {width}, "weight");
  const A* rstd = operands.full(job.rstd, {rows}, "rstd");
  const auto dx = operands.output(job.dx, {rows, width}, "dx");
  A* dweight = operands.full(job.dweight, {width}, "dweight");
  if (rows == 0) return;
  const TokenChunks chunks(rows);
  A* parts = nullptr;
  if (dweight) lay_out(stream, [&](ScratchPieces& pieces) { parts = pieces.take<A>(chunks.count * width); });
  operands.with_packs([&]<int kPack>() {
    if (dx.data)
      launch(input_grad_kernel<A, kPack>, {blocks_for(rows, kRowsPerBlock), kThreads, 0, stream.handle()}, dy,
             x, weight, rstd, dx, rows, width);
    if (dweight)
      launch(
          weight_grad_kernel<A, kPack>,
          {dim3(blocks_for(width, kThreads * kPack), unsigned(chunks.count)), kThreads, 0, stream.handle()},
          dy, x, rstd, chunks, width, parts);
  });
  if (dweight) sum_chunks(stream.handle(), parts, chunks.count, width, width, dweight, true);
}

}  // namespace

void run(CudaStream& stream, const RmsNormForward& job) {
  for_acc(acc_of(job.x.dtype), [&]<class A>() { forward<A>(stream, job); });
}

void run(CudaStream& stream, const RmsNormBackward& job) {
  for_acc(acc_of(job.x.dtype), [&]<class A>() { backward<A>(stream, job); });
}

}  // namespace strata::kernels
