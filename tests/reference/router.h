// Top-k expert choice with correction bias and groups, its loads, and its two auxiliary losses.
#pragma once

#include <string>

#include "reference/array.h"

namespace strata::reference {

/// Names as in the model configuration.
struct RouterSpec {
  int64_t num_experts_per_tok = 1;
  std::string scoring_func = "sigmoid";  ///< or "softmax"
  int64_t n_group = 1;
  int64_t topk_group = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1.0;
  double seq_aux_loss_coef = 0.0;
  double router_z_loss_coef = 0.0;
};

struct RouterResult {
  Array logits;               ///< [T, E]
  Array scores;               ///< [T, E], unbiased
  Ids experts;                ///< [T · K], of each token by falling choice score
  Array gates;                ///< [T, K], in the order of `experts`
  Ids loads;                  ///< [E], tokens that chose the expert
  double balance_loss = 0.0;  ///< coefficient included, mean over sequences
  double z_loss = 0.0;        ///< coefficient included, mean over tokens
};

/// The `count` indices of largest value, by falling value; of equal values the lower index comes first.
Ids top_indices(const std::vector<double>& values, int64_t count);

/// logits [T, E], bias [E] (ignored with softmax; empty: zero). T is a multiple of `sequence_length`.
RouterResult route_logits(const Array& logits, const Array& bias, const RouterSpec& spec,
                          int64_t sequence_length);

/// x [T, D], weight [E, D]: the same from logits = x weightᵀ.
RouterResult route(const Array& x, const Array& weight, const Array& bias, const RouterSpec& spec,
                   int64_t sequence_length);

}  // namespace strata::reference
