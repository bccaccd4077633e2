// The floating-point operations of the products of the model, from the sizes of the jobs alone. A backward
// product counts twice the forward one: scores and views that it computes again count nothing.
#include "kernels/jobs.h"

namespace strata::kernels {
namespace {

double size(const Dims& dims) { return double(dims.numel()); }

// Scores and weighted sums, each two operations a pair and dim.
double attention(const Sequences& s, const Heads& q, const Heads& v) {
  const double pairs = double(s.length) * double(s.past) + 0.5 * double(s.length) * double(s.length + 1);
  return 2 * double(s.batch) * pairs * double(q.heads) * double(q.dim + v.dim);
}

// Of all views of a source: each tap of each convolution.
double views(const DepthSource& source) {
  double taps = 0;
  for (const ConstView& conv : source.conv) taps += double(conv.dims[1]);
  return 2 * taps * size(source.value.dims);
}

template <class Job>
double depth_attend(const Job& job) {
  double n = 0;
  for (const DepthSource& source : job.sources) n += views(source);
  for (const auto& target : job.targets) n += 4 * double(job.sources.size()) * size(target.out.dims);
  return n;
}

template <class Job>
double depth_merge(const Job& job) {
  double n = 0;
  if (job.partial.value) n += views(job.partial) + 4 * size(job.out.dims);
  if (job.fusion != Fusion::None) n += 2 * size(job.out.dims);
  if (job.fusion == Fusion::Gate) n += 2 * size(job.out.dims) * double(job.gate.weight.dims[0]);
  return n;
}

// x and next are [T,n,D]: one product for y, n for the old streams.
double hyper_write(const ConstView& x, const Dims& next) {
  return 2 * size(next) * double(x ? 1 + next[1] : 1);
}

}  // namespace

double flops(const Gemm& job) { return 2 * size(job.c.dims) * double(job.a.dims[job.transpose_a ? 0 : 1]); }
double flops(const GroupedGemm& job) {
  return 2 * double(job.x.dims[0]) * double(job.w.dims[1]) * double(job.w.dims[2]);
}
double flops(const GroupedGemmWeight& job) {
  return 2 * double(job.x.dims[0]) * double(job.dw.dims[1]) * double(job.dw.dims[2]);
}
double flops(const HeadLinear& job) {
  return 2 * double(job.x.dims[0]) * double(job.x.dims[1]) * double(job.end - job.begin) *
         double(job.w.dims[2]);
}

double flops(const AttentionForward& job) { return attention(job.sequences, job.q, job.v); }
double flops(const AttentionBackward& job) { return 2 * attention(job.sequences, job.q, job.v); }

double flops(const DepthAttendForward& job) { return depth_attend(job); }
double flops(const DepthAttendBackward& job) { return 2 * depth_attend(job); }
double flops(const DepthMergeForward& job) { return depth_merge(job); }
double flops(const DepthMergeBackward& job) { return 2 * depth_merge(job); }

double flops(const HyperReadForward& job) { return 2 * size(job.x.dims); }
double flops(const HyperReadBackward& job) { return 4 * size(job.x.dims); }
double flops(const HyperWriteForward& job) { return hyper_write(job.x, job.next.dims); }
double flops(const HyperWriteBackward& job) { return 2 * hyper_write(job.x, job.dnext.dims); }

}  // namespace strata::kernels
