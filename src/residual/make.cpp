#include "residual/variants.h"

namespace strata::residual {

std::unique_ptr<Residual> make(const Config& config, const Shape& shape, ParameterStore& store) {
  switch (config.type) {
    case Type::Vanilla:
      return make_vanilla(config, shape, store);
    case Type::AttnRes:
      return make_attnres(config, shape, store);
    case Type::Msar:
      return make_msar(config, shape, store);
    case Type::Mhc:
      return make_mhc(config, shape, store);
    case Type::AttnResMhc:
      return make_attnres_mhc(config, shape, store);
  }
  throw Error("unknown residual type");
}

}  // namespace strata::residual
