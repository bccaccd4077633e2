// Retrieval over depth, phase 2: merges the running block's partial sum into what phase 1 found, then fuses
// the views.
#pragma once
#include "kernels/jobs.h"
#include "ops/depth_attend.h"

namespace strata::ops {

struct DepthPartial {
  Var value;  // [T,D] or [T,M,D]
  ConvSet convs = {};
  DepthTarget target;  // who asks
};
struct GateParameters {
  Parameter* weight = nullptr;  // [M, M*D]
  Parameter* scale = nullptr;   // [1]
  Parameter* bias = nullptr;    // [M]
};
struct DepthFusion {
  kernels::Fusion kind = kernels::Fusion::Mean;
  GateParameters gate = {};  // with Fusion::Gate
};

struct DepthMerged {
  Var y;              // [T,D], or [T,M,D] with Fusion::None
  Tensor logits;      // [T,M] in Acc: the partial's scores; undefined without one
  Tensor gates;       // [T,M] in Acc; undefined without a gate
  bool owned = true;  // y has memory of its own and can be released; otherwise it lies in out's
};

// out [T,M,D] and lse [T,M] as depth_attend gives them. Without a partial lse is not used, and with
// Fusion::Gate this is a gated sum of streams. One view without a partial and without a gate costs nothing: y
// is out.
DepthMerged depth_merge(Tape& tape, const Var& out, const Var& lse, const DepthPartial* partial,
                        const DepthFusion& fusion, const Sequences& sequences, double eps);

}  // namespace strata::ops
