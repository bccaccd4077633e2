// Sentences about rules and names.
#include "base/field_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/json_value.h"

namespace strata {
namespace {

std::string bound_text(double bound) {
  constexpr double kExact = 1e15;
  return bound == std::floor(bound) && std::abs(bound) <= kExact ? std::to_string(std::int64_t(bound))
                                                                 : json_number(bound);
}

}  // namespace

std::string allowed_text(std::string_view noun, const Rule& rule) {
  std::string text(noun);
  const bool low = rule.low != -Rule::kInfinity, high = rule.high != Rule::kInfinity;
  if (low && high && !rule.low_open && !rule.high_open)
    return text + " from " + bound_text(rule.low) + " to " + bound_text(rule.high);
  if (low) text += (rule.low_open ? " above " : " of at least ") + bound_text(rule.low);
  if (low && high) text += " and";
  if (high) text += (rule.high_open ? " below " : " of at most ") + bound_text(rule.high);
  return text;
}

bool within(double value, const Rule& rule) {
  const bool high_enough = rule.low_open ? value > rule.low : value >= rule.low;
  return high_enough && (rule.high_open ? value < rule.high : value <= rule.high);
}

std::string choice_text(Names names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += json_quote(std::string(names[i]));
  }
  return text;
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (&word == words.data() ? "" : separator) + word;
  return text;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], int(i) + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace strata
