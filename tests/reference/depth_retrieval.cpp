// One-phase depth attention: all sources at once, no block split, nothing merged.
#include "reference/depth_retrieval.h"

#include <algorithm>
#include <cmath>

#include "reference/rms_norm.h"

namespace strata::reference {

DepthRetrieval depth_retrieve(const std::vector<Array>& sources, const Array& query, const Array& key_weight,
                              double eps) {
  const int64_t n = static_cast<int64_t>(sources.size());
  require(n > 0, "depth_retrieve: no sources");
  const int64_t tokens = sources[0].dim(0), width = sources[0].dim(1);
  DepthRetrieval result{Array({tokens, width}), Array({n, tokens}), Array({n, tokens}), Array({tokens})};
  for (int64_t i = 0; i < n; ++i) {
    const Array key = rms_norm(sources[static_cast<size_t>(i)], key_weight, eps);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t c = 0; c < width; ++c) result.scores(i, t) += query(c) * key(t, c);
    }
  }
  for (int64_t t = 0; t < tokens; ++t) {
    double highest = result.scores(0, t), total = 0.0;
    for (int64_t i = 0; i < n; ++i) highest = std::max(highest, result.scores(i, t));
    for (int64_t i = 0; i < n; ++i) total += std::exp(result.scores(i, t) - highest);
    result.lse(t) = highest + std::log(total);
    for (int64_t i = 0; i < n; ++i) {
      const double p = std::exp(result.scores(i, t) - highest) / total;
      result.weights(i, t) = p;
      for (int64_t c = 0; c < width; ++c) result.z(t, c) += p * sources[static_cast<size_t>(i)](t, c);
    }
  }
  return result;
}

Array causal_conv_view(const Array& source, const Array& taps, int64_t sequence_length, const Ids& doc_ids) {
  Array view(source.shape);
  for (int64_t t = 0; t < source.dim(0); ++t) {
    for (int64_t lag = 0; lag < taps.dim(1); ++lag) {
      if (t < lag || !sees(t, t - lag, sequence_length, doc_ids)) continue;
      for (int64_t c = 0; c < source.dim(1); ++c) view(t, c) += taps(c, lag) * source(t - lag, c);
    }
  }
  return view;
}

Array stream_view(const Array& source, int64_t r) {
  Array view({source.dim(0), source.dim(2)});
  for (int64_t t = 0; t < view.dim(0); ++t) {
    for (int64_t c = 0; c < view.dim(1); ++c) view(t, c) = source(t, r, c);
  }
  return view;
}

DepthViewsRetrieval depth_retrieve_views(const std::vector<Array>& sources, const Array& queries,
                                         const Array& key_weight, const std::vector<std::vector<Array>>& taps,
                                         const DepthSpec& spec) {
  require(!sources.empty(), "depth_retrieve_views: no sources");
  const int64_t n = static_cast<int64_t>(sources.size());
  const int64_t views = queries.dim(0), width = queries.dim(1), tokens = sources[0].dim(0);
  DepthViewsRetrieval result{Array({tokens, views, width}), Array({views, n, tokens}),
                             Array({views, tokens})};
  for (int64_t r = 0; r < views; ++r) {
    std::vector<Array> seen;
    for (size_t j = 0; j < sources.size(); ++j) {
      if (spec.views == DepthViews::kStream) {
        seen.push_back(stream_view(sources[j], r));
      } else if (spec.views == DepthViews::kCausalConv && r > 0) {
        const Array& conv = taps.at(j).at(static_cast<size_t>(r - 1));
        seen.push_back(causal_conv_view(sources[j], conv, spec.sequence_length, spec.doc_ids));
      } else {
        seen.push_back(sources[j]);
      }
    }
    const DepthRetrieval one =
        depth_retrieve(seen, stream_view(queries.reshaped({1, views, width}), r).reshaped({width}),
                       key_weight, spec.key_norm_eps);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t c = 0; c < width; ++c) result.z(t, r, c) = one.z(t, c);
      for (int64_t i = 0; i < n; ++i) result.weights(r, i, t) = one.weights(i, t);
      result.lse(r, t) = one.lse(t);
    }
  }
  return result;
}

}  // namespace strata::reference
