// Weights of a residual module with which the model is the vanilla one.
#pragma once
#include "autograd/parameter.h"

namespace strata::residual {

// `module`: the initialised weights that make() added, of any type, and no others. Afterwards what a
// sub-layer or the head reads is the vanilla hidden state times a positive number of the token, which the
// norm behind it takes away as rms_norm_eps -> 0; in every setting of residual::Config.
void start_as_vanilla(ParameterStore& module);

}  // namespace strata::residual
