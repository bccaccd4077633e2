// The gain of an RMSNorm as a parameter.
#pragma once
#include <string>

#include "autograd/parameter.h"

namespace strata::nn {

// [width], starts at 1, no decay, kept in full precision. `name` is the published one, ".weight" included.
Parameter& add_norm_weight(ParameterStore& store, const std::string& name, std::int64_t width);

}  // namespace strata::nn
