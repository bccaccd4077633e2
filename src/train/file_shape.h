// Shapes as files have them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/view.h"

namespace strata::train {

inline std::vector<std::int64_t> shape_of(const Dims& dims) {
  return {dims.extent.begin(), dims.extent.begin() + dims.rank};
}

inline std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string s = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

}  // namespace strata::train
