// DeepSeek routing: choose by biased score, gate by unbiased score; DeepSeek-V3 eq. 17-20 for the balance
// loss.
#include "reference/router.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/linear.h"
#include "reference/swiglu.h"

namespace strata::reference {
namespace {

constexpr double kOut = -std::numeric_limits<double>::infinity();

double log_sum_exp(const Array& logits, int64_t t) {
  double highest = kOut, total = 0.0;
  for (int64_t e = 0; e < logits.dim(1); ++e) highest = std::max(highest, logits(t, e));
  for (int64_t e = 0; e < logits.dim(1); ++e) total += std::exp(logits(t, e) - highest);
  return highest + std::log(total);
}

std::vector<double> row(const Array& a, int64_t t) {
  const auto begin = a.data.begin() + t * a.dim(1);
  return std::vector<double>(begin, begin + a.dim(1));
}

/// Puts the choice scores of experts outside the best `topk_group` groups to −infinity.
void keep_best_groups(std::vector<double>& choice, const RouterSpec& spec) {
  const int64_t size = static_cast<int64_t>(choice.size()) / spec.n_group;
  std::vector<double> value;
  for (int64_t g = 0; g < spec.n_group; ++g) {
    std::vector<double> group(choice.begin() + g * size, choice.begin() + (g + 1) * size);
    std::sort(group.rbegin(), group.rend());
    const bool two = spec.scoring_func == "sigmoid" && size > 1;
    value.push_back(two ? group[0] + group[1] : group[0]);
  }
  const Ids kept = top_indices(value, spec.topk_group);
  for (int64_t g = 0; g < spec.n_group; ++g) {
    if (std::find(kept.begin(), kept.end(), g) != kept.end()) continue;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) choice[static_cast<size_t>(e)] = kOut;
  }
}

Array scores_of(const Array& logits, const std::string& scoring_func) {
  require(scoring_func == "sigmoid" || scoring_func == "softmax", "router: unknown scoring_func");
  Array scores(logits.shape);
  for (int64_t t = 0; t < logits.dim(0); ++t) {
    const double lse = log_sum_exp(logits, t);
    for (int64_t e = 0; e < logits.dim(1); ++e) {
      scores(t, e) = scoring_func == "sigmoid" ? sigmoid(logits(t, e)) : std::exp(logits(t, e) - lse);
    }
  }
  return scores;
}

/// Mean over sequences of coefficient · sum over e of f_e P_e.
double balance_loss(const RouterResult& routed, const RouterSpec& spec, int64_t sequence_length) {
  const int64_t tokens = routed.scores.dim(0), experts = routed.scores.dim(1), k = spec.num_experts_per_tok;
  const double length = static_cast<double>(sequence_length);
  double sum = 0.0;
  for (int64_t start = 0; start < tokens; start += sequence_length) {
    std::vector<double> chosen(static_cast<size_t>(experts)), share(static_cast<size_t>(experts));
    for (int64_t t = start; t < start + sequence_length; ++t) {
      const std::vector<double> score = row(routed.scores, t);
      Ids taken(routed.experts.begin() + t * k, routed.experts.begin() + (t + 1) * k);
      if (spec.scoring_func == "sigmoid") taken = top_indices(score, k);
      for (int64_t e : taken) chosen[static_cast<size_t>(e)] += 1.0;
      double total = 0.0;
      for (double s : score) total += s;
      for (size_t e = 0; e < score.size(); ++e) share[e] += score[e] / total / length;
    }
    for (size_t e = 0; e < chosen.size(); ++e) {
      sum += static_cast<double>(experts) / (static_cast<double>(k) * length) * chosen[e] * share[e];
    }
  }
  return spec.seq_aux_loss_coef * sum / (static_cast<double>(tokens) / length);
}

}  // namespace

Ids top_indices(const std::vector<double>& values, int64_t count) {
  Ids order;
  for (size_t i = 0; i < values.size(); ++i) order.push_back(static_cast<int64_t>(i));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

RouterResult route_logits(const Array& logits, const Array& bias, const RouterSpec& spec,
                          int64_t sequence_length) {
  const int64_t tokens = logits.dim(0), experts = logits.dim(1), k = spec.num_experts_per_tok;
  require(experts % spec.n_group == 0 && k <= spec.topk_group * experts / spec.n_group,
          "router: bad groups or top-k");
  require(tokens % sequence_length == 0, "router: T is not a multiple of the sequence length");
  RouterResult result;
  result.logits = logits;
  result.scores = scores_of(logits, spec.scoring_func);
  result.gates = Array({tokens, k});
  result.loads.assign(static_cast<size_t>(experts), 0);
  double z = 0.0;
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<double> choice = row(result.scores, t);
    if (spec.scoring_func == "sigmoid" && !bias.empty()) {
      for (int64_t e = 0; e < experts; ++e) choice[static_cast<size_t>(e)] += bias(e);
    }
    if (spec.n_group > 1) keep_best_groups(choice, spec);
    const Ids chosen = top_indices(choice, k);
    double total = 0.0;
    for (int64_t e : chosen) total += result.scores(t, e);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t e = chosen[static_cast<size_t>(i)];
      result.gates(t, i) =
          result.scores(t, e) / (spec.norm_topk_prob ? total : 1.0) * spec.routed_scaling_factor;
      result.experts.push_back(e);
      ++result.loads[static_cast<size_t>(e)];
    }
    const double lse = log_sum_exp(logits, t);
    z += lse * lse;
  }
  if (tokens == 0) return result;
  result.balance_loss = balance_loss(result, spec, sequence_length);
  result.z_loss = spec.router_z_loss_coef * z / static_cast<double>(tokens);
  return result;
}

RouterResult route(const Array& x, const Array& weight, const Array& bias, const RouterSpec& spec,
                   int64_t sequence_length) {
  return route_logits(linear(x, weight), bias, spec, sequence_length);
}

}  // namespace strata::reference
