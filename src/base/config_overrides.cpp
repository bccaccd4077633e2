// "a.b=value": the value is JSON if it parses as such, else a bare string.
#include "base/config_overrides.h"

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
    const std::string key = path.substr(start, dot - start);
    JsonValue* member = object->find(key);
    if (!member) member = &object->members.emplace_back(key, JsonValue{.origin = Origin::CommandLine}).second;
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
