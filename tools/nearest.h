// The known word that a mistyped one was meant to be.
#pragma once
#include <algorithm>
#include <string>

#include "base/field_text.h"

namespace strata::tools {

// Of names, of which there is at least one, the first with the least edit distance.
template <class Names>
std::string nearest(const Names& names, const std::string& word) {
  return std::string(*std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a, word) < edit_distance(b, word);
  }));
}

}  // namespace strata::tools
