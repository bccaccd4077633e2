// Retrieval over depth, phase 1: all targets of a block against the completed sources, in one node. Attention
// Residuals, arXiv 2603.15031.
#pragma once
#include "autograd/parameter.h"
#include "autograd/tape.h"

namespace strata::ops {

// What a target asks: one query per view, keys RMSNorm_w(view).
struct DepthTarget {
  Parameter* query = nullptr;     // [M,D]; [D] where M is 1
  Parameter* key_norm = nullptr;  // [D]
};
// Convolutions [D,kappa] (column = lag) that make views 1..M-1 of a source; empty: every view is the source
// itself, or stream r of a source [T,M,D].
using ConvSet = std::vector<Parameter*>;

struct DepthOpened {
  Var out;        // [T,M,D]: normalised over the completed sources alone
  Var lse;        // [T,M] in Acc
  Tensor logits;  // [N,T,M] in Acc
};

// Sources [T,D] or [T,M,D]; convs: one set per source, or none at all. A target's bits do not depend on the
// others. The `out`s, all together, can be released.
std::vector<DepthOpened> depth_attend(Tape& tape, const std::vector<Var>& sources,
                                      const std::vector<ConvSet>& convs,
                                      const std::vector<DepthTarget>& targets, const Sequences& sequences,
                                      std::int64_t views, double eps);

}  // namespace strata::ops
