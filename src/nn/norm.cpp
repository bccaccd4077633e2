#include "nn/norm.h"

namespace strata::nn {

Parameter& add_norm_weight(ParameterStore& store, const std::string& name, std::int64_t width) {
  return store.add({.name = name,
                    .dims = {width},
                    .init = Init::constant(1),
                    .decay = Decay::No,
                    .precision = Precision::Full});
}

}  // namespace strata::nn
