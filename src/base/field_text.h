// The words in which messages and the reference page speak of fields.
#pragma once
#include <string>
#include <vector>

#include "base/fields.h"

namespace strata {

// "an integer from 1 to 8", "a number above 0".
std::string allowed_text(std::string_view noun, const Rule& rule);
// Whether a number obeys the rule's bounds.
bool within(double value, const Rule& rule);
// "\"mla\" or \"gqa\"".
std::string choice_text(Names names);
// "a, b, c".
std::string join(const std::vector<std::string>& words, const std::string& separator);

// Insertions, deletions and substitutions that turn a into b (Levenshtein 1966).
int edit_distance(std::string_view a, std::string_view b);

}  // namespace strata
