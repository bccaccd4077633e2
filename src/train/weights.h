// Weights of a model from files.
#pragma once
#include "autograd/parameter.h"
#include "checkpoint/named_weights.h"
#include "model/config.h"

namespace strata::train {

// Whether they are exactly the weights and buffers of a model, by names and shapes. One InputError lists what
// is missing, unknown or of another shape: the first few, and how many. The store need not be allocated.
void check_weights(const ParameterStore& store, const checkpoint::NamedWeights& weights);

// After that check, every weight and buffer of the store, which is the whole model's.
void load_weights(ParameterStore& store, const checkpoint::NamedWeights& weights);
void load_weights(ParameterStore& store, const checkpoint::SafetensorsFile& file);
// The same for a store that has a part of `model`: the weights are checked against all of it.
void load_weights(ParameterStore& store, const checkpoint::NamedWeights& weights,
                  const model::ModelConfig& model);

}  // namespace strata::train
