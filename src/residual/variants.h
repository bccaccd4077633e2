// The residual types, one file each. Each adds its parameters to the store.
#pragma once
#include "residual/residual.h"

namespace strata::residual {

std::unique_ptr<Residual> make_vanilla(const Config& config, const Shape& shape, ParameterStore& store);
std::unique_ptr<Residual> make_attnres(const Config& config, const Shape& shape, ParameterStore& store);
std::unique_ptr<Residual> make_msar(const Config& config, const Shape& shape, ParameterStore& store);
std::unique_ptr<Residual> make_mhc(const Config& config, const Shape& shape, ParameterStore& store);
std::unique_ptr<Residual> make_attnres_mhc(const Config& config, const Shape& shape, ParameterStore& store);

}  // namespace strata::residual
