// Weights of a model from a file.
#pragma once
#include "autograd/parameter.h"
#include "checkpoint/safetensors.h"

namespace strata::train {

// Every weight and buffer of the model; InputError lists what is missing, unknown or of another shape.
void load_weights(ParameterStore& store, const checkpoint::SafetensorsFile& file);

}  // namespace strata::train
