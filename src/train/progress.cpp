#include "train/progress.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"

namespace strata::train {
namespace {

struct Count {
  const char* key;
  std::int64_t Progress::*value;
};
constexpr Count kCounts[] = {
    {"step", &Progress::step},       {"updates", &Progress::updates},
    {"samples", &Progress::samples}, {"tokens", &Progress::tokens},
    {"skipped", &Progress::skipped}, {"skipped_in_a_row", &Progress::skipped_in_a_row}};

}  // namespace

std::string progress_json(const Progress& p) {
  std::string text = "{";
  for (const Count& c : kCounts) text += concat("\n  ", json_quote(c.key), ": ", p.*c.value, ",");
  text += concat("\n  \"evaluation_due\": ", p.evaluation_due ? "true" : "false", ",");
  text += concat("\n  \"data\": ", json_quote(p.data), ",\n  \"losses\": [");
  const char* separator = "";
  for (const double loss : p.losses) text += std::exchange(separator, ", ") + json_number(loss);
  return text + "]\n}\n";
}

Progress parse_progress(const std::string& text, const std::string& source) {
  using Kind = JsonValue::Kind;
  const JsonValue root = parse_json(text, source, Origin::File);
  const auto get = [&](const char* key, Kind kind, const char* expected) -> const JsonValue& {
    const JsonValue* v = root.find(key);
    if (!v) throw InputError(concat(source, ": ", key, " is missing"));
    if (v->kind != kind)
      throw InputError(concat(source, ": ", key, " is ", v->brief(), ", expected ", expected));
    return *v;
  };
  for (const auto& [key, value] : root.members)
    if (key != "evaluation_due" && key != "data" && key != "losses" &&
        std::none_of(std::begin(kCounts), std::end(kCounts),
                     [&, k = key](const Count& c) { return k == c.key; }))
      throw InputError(concat(source, ": ", key, " is unknown"));
  Progress p;
  for (const Count& c : kCounts) {
    p.*c.value = get(c.key, Kind::Integer, "an integer from 0").integer;
    if (p.*c.value < 0)
      throw InputError(concat(source, ": ", c.key, " is ", p.*c.value, ", expected an integer from 0"));
  }
  p.evaluation_due = get("evaluation_due", Kind::Boolean, "true or false").boolean;
  p.data = get("data", Kind::String, "a string").text;
  for (const JsonValue& loss : get("losses", Kind::Array, "a list of numbers").elements) {
    if (!loss.is_number())
      throw InputError(concat(source, ": losses holds ", loss.brief(), ", expected numbers"));
    p.losses.push_back(loss.real);
  }
  return p;
}

}  // namespace strata::train
