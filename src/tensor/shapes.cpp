#include "tensor/shapes.h"

namespace strata {

Shapes& Shapes::bind(const std::string& dim, std::int64_t extent) {
  const auto [it, fresh] = bound_.try_emplace(dim, extent);
  STRATA_CHECK(it->second == extent, op_, ": ", dim, "=", extent, ", but ", dim, "=", it->second);
  return *this;
}

Shapes& Shapes::operator()(const ConstView& view, std::string_view what, std::string_view dims) {
  std::istringstream names{std::string(dims)};
  int axis = 0;
  for (std::string d; names >> d; ++axis) {
    STRATA_CHECK(axis < view.dims.rank, op_, ": ", what, " is ", view.dims.text(), ", expected [", dims, "]");
    const auto [it, fresh] = bound_.try_emplace(d, view.dims[axis]);
    STRATA_CHECK(it->second == view.dims[axis], op_, ": ", what, "[", dims, "] has ", d, "=", view.dims[axis],
                 ", but ", d, "=", it->second);
  }
  STRATA_CHECK(axis == view.dims.rank, op_, ": ", what, " is ", view.dims.text(), ", expected [", dims, "]");
  return *this;
}

}  // namespace strata
