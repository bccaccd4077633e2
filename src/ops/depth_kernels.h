// From parameters to the kernels' descriptions of sources and queries.
#pragma once
#include "kernels/jobs.h"
#include "ops/depth_attend.h"

namespace strata::ops {

inline kernels::DepthSource depth_source(const Tensor& value, const ConvSet& convs) {
  kernels::DepthSource source{.value = value, .conv = {}};
  for (const Parameter* p : convs) source.conv.push_back(p->value);
  return source;
}

inline kernels::DepthSourceGrad depth_source_grad(const Grad& dvalue, const ConvSet& convs) {
  kernels::DepthSourceGrad grad{.dvalue = dvalue, .dconv = {}};
  for (const Parameter* p : convs) grad.dconv.push_back(p->grad);
  return grad;
}

inline kernels::DepthQuery depth_query(const DepthTarget& target) {
  return {.query = target.query->value, .key_norm = target.key_norm->value};
}

// Throws unless value, convolutions and target fit out [T,M,D].
void check_depth_source(const Tensor& value, const ConvSet& convs, std::int64_t tokens, std::int64_t views,
                        std::int64_t width);
void check_depth_target(const DepthTarget& target, std::int64_t views, std::int64_t width);

}  // namespace strata::ops
