// Retrieval over depth: s_i = q · RMSNorm_w(v_i), p = softmax_i(s), z = sum of p_i v_i, in ONE softmax over
// all sources, per token; and the views of a source that several retrievals of one target look at.
#pragma once

#include "reference/array.h"

namespace strata::reference {

struct DepthRetrieval {
  Array z;        ///< [T, D]
  Array weights;  ///< [n, T], softmax over the n sources
  Array scores;   ///< [n, T]
  Array lse;      ///< [T], log-sum-exp of the scores
};

/// sources: n arrays [T, D]; query [D], key_weight [D]. Values are the un-normalised sources; no 1/√D.
DepthRetrieval depth_retrieve(const std::vector<Array>& sources, const Array& query, const Array& key_weight,
                              double eps);

/// view_t = sum over lags δ of taps[:, δ] ∘ v_{t−δ}; source [T, D], taps [D, κ] -> [T, D].
/// Lags before the sequence start or in another document give zero. doc_ids [T] or empty.
Array causal_conv_view(const Array& source, const Array& taps, int64_t sequence_length,
                       const Ids& doc_ids = {});

/// Stream r of source [T, M, D] -> [T, D].
Array stream_view(const Array& source, int64_t r);

enum class DepthViews {
  kSelf,        ///< every view is the source [T, D] itself
  kCausalConv,  ///< view 0 is the source, view r its convolution with taps r
  kStream,      ///< view r is stream r of the source [T, M, D]
};

struct DepthSpec {
  DepthViews views = DepthViews::kSelf;
  double key_norm_eps = 1e-6;
  int64_t sequence_length = 1;
  Ids doc_ids;  ///< [T], or empty
};

struct DepthViewsRetrieval {
  Array z;        ///< [T, M, D]
  Array weights;  ///< [M, n, T]
  Array lse;      ///< [M, T]
};

/// One softmax per view. queries [M, D], key_weight [D] shared by the views.
/// taps (kCausalConv only): taps[j][r − 1] belongs to source j and view r, 1 <= r < M.
DepthViewsRetrieval depth_retrieve_views(const std::vector<Array>& sources, const Array& queries,
                                         const Array& key_weight, const std::vector<std::vector<Array>>& taps,
                                         const DepthSpec& spec);

}  // namespace strata::reference
