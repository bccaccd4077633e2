// Shapes are checked by name, and the check is the documentation. One legend for the project: T tokens, D
// model, F feed-forward, H heads, E experts, K experts per token, M streams or views, N sources, V
// vocabulary, R rows.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/view.h"

namespace strata {

class Shapes {
 public:
  explicit Shapes(std::string_view op) : op_(op) {}
  // Binds or compares each extent: Shapes("rmsnorm")(x, "x", "T D")(weight, "weight", "D").
  Shapes& operator()(const ConstView& view, std::string_view what, std::string_view dims);
  Shapes& bind(const std::string& dim, std::int64_t extent);
  std::int64_t operator[](const std::string& dim) const { return bound_.at(dim); }

 private:
  std::string op_;
  std::map<std::string, std::int64_t> bound_;
};

}  // namespace strata
