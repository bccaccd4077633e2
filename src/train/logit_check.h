// Whether two files hold the same function: both models on a few tokens in float64.
#pragma once
#include "checkpoint/named_weights.h"
#include "model/config.h"

namespace strata::train {

// Logits of two sequences of random tokens, the second of two documents. Memory: 8 bytes a weight. The
// weights must be the model's exactly.
std::vector<double> sample_logits(const model::ModelConfig& model, const checkpoint::NamedWeights& weights);

// max |a - b| / max |b|; NaN where a logit is not finite.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace strata::train
