// out_t = sum over visible u of softmax_u(scale · q_t·k_u) v_u.
#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace strata::reference {

AttentionResult attention(const Array& q, const Array& k, const Array& k_shared, const Array& v, double scale,
                          int64_t sequence_length, const Ids& doc_ids) {
  const int64_t tokens = q.dim(0), heads = q.dim(1), key_heads = k.dim(1), dk = k.dim(2), dv = v.dim(2);
  const int64_t dr = k_shared.empty() ? 0 : k_shared.dim(1);
  require(q.dim(2) == dk + dr, "attention: query and key widths disagree");
  require(heads % key_heads == 0 && v.dim(1) == key_heads, "attention: head counts disagree");
  require(tokens % sequence_length == 0, "attention: T is not a multiple of the sequence length");
  AttentionResult result{Array({tokens, heads, dv}), Array({tokens, heads})};
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t hk = h / (heads / key_heads);
      Ids visible;
      std::vector<double> score;
      double highest = -std::numeric_limits<double>::infinity();
      for (int64_t u = 0; u <= t; ++u) {
        if (!sees(t, u, sequence_length, doc_ids)) continue;
        double dot = 0.0;
        for (int64_t i = 0; i < dk; ++i) dot += q(t, h, i) * k(u, hk, i);
        for (int64_t i = 0; i < dr; ++i) dot += q(t, h, dk + i) * k_shared(u, i);
        visible.push_back(u);
        score.push_back(scale * dot);
        highest = std::max(highest, scale * dot);
      }
      double total = 0.0;
      for (double s : score) total += std::exp(s - highest);
      result.lse(t, h) = highest + std::log(total);
      for (size_t n = 0; n < visible.size(); ++n) {
        const double p = std::exp(score[n] - highest) / total;
        for (int64_t i = 0; i < dv; ++i) result.out(t, h, i) += p * v(visible[n], hk, i);
      }
    }
  }
  return result;
}

}  // namespace strata::reference
