// "a.b=value" or "a[1].b=value": the value is JSON if it parses as such, else a bare string.
#include "base/config_overrides.h"

#include <charconv>
#include <optional>

#include "base/error.h"

namespace strata {
namespace {

const std::string kSource = "command line";

JsonValue parse_value(const std::string& key, const std::string& text) {
  const bool is_quoted = !text.empty() && (text[0] == '{' || text[0] == '[' || text[0] == '"');
  if (is_quoted) return parse_json(text, kSource + ": value of " + key, Origin::CommandLine);
  JsonValue value{.kind = JsonValue::Kind::String, .origin = Origin::CommandLine};
  try {
    value = parse_json(text, kSource, Origin::CommandLine);
  } catch (const InputError&) {
  }
  value.text = text;  // of a number or a word too: a string field takes it as it stands
  return value;
}

// "train[1]" is the key "train" and, of the list there, element 1.
struct Part {
  std::string key;
  std::optional<std::size_t> index;
};

Part part_of(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos || !text.ends_with(']')) return {text, {}};
  const std::string digits = text.substr(open + 1, text.size() - open - 2);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size()) return {text, {}};
  return {text.substr(0, open), index};
}

// The member of `object` that a part names: made if it is not there, but for an element of a list.
JsonValue& step(JsonValue& object, const Part& part, const std::string& path) {
  JsonValue* member = object.find(part.key);
  if (part.index) {
    const std::size_t present = member ? member->elements.size() : 0;
    if (*part.index >= present)
      throw InputError(
          concat(kSource, ": ", path, " is not there: the list has ", present, " elements, counted from 0"));
    return member->elements[*part.index];
  }
  if (member) return *member;
  return object.members.emplace_back(part.key, JsonValue{.origin = Origin::CommandLine}).second;
}

}  // namespace

void apply_override(JsonValue& root, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  if (equals == std::string::npos || path.empty() || path.starts_with('.') || path.ends_with('.') ||
      path.find("..") != std::string::npos)
    throw InputError(
        concat(kSource, ": --set ", json_quote(assignment), " is not of the form section.key=value"));
  JsonValue* object = &root;
  std::size_t start = 0;
  while (true) {
    const std::size_t dot = path.find('.', start);
    JsonValue* member = &step(*object, part_of(path.substr(start, dot - start)), path.substr(0, dot));
    if (dot == std::string::npos) {
      *member = parse_value(path, assignment.substr(equals + 1));
      return;
    }
    if (member->kind == JsonValue::Kind::Null) member->kind = JsonValue::Kind::Object;
    if (member->kind != JsonValue::Kind::Object)
      throw InputError(concat(kSource, ": ", path, " cannot be set, because ", path.substr(0, dot), " is ",
                              member->brief(), " and not an object"));
    object = member;
    start = dot + 1;
  }
}

}  // namespace strata
