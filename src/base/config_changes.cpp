#include "base/config_changes.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_value.h"

namespace strata {
namespace {

struct Leaf {
  std::string path, whole, brief;
};

// The value in full: brief() cuts it.
std::string whole(const JsonValue& v) {
  std::string text = v.kind == JsonValue::Kind::Array || v.kind == JsonValue::Kind::Object ? "" : v.brief();
  if (v.kind == JsonValue::Kind::String) text = json_quote(v.text);
  for (const JsonValue& e : v.elements) text += whole(e) + ",";
  for (const auto& [key, value] : v.members) text += json_quote(key) + ":" + whole(value) + ",";
  return concat(int(v.kind), text, ";");
}

void collect(const JsonValue& v, const std::string& path, std::vector<Leaf>& leaves) {
  if (v.kind != JsonValue::Kind::Object) {
    if (v.kind != JsonValue::Kind::Null) leaves.push_back({path, whole(v), v.brief()});
    return;
  }
  for (const auto& [key, value] : v.members) collect(value, path.empty() ? key : path + "." + key, leaves);
}

std::vector<Leaf> leaves_of(const std::string& text, const std::string& source) {
  std::vector<Leaf> leaves;
  collect(parse_json(text, source, Origin::File), "", leaves);
  return leaves;
}

const Leaf* find(const std::vector<Leaf>& leaves, const std::string& path) {
  const auto it = std::find_if(leaves.begin(), leaves.end(), [&](const Leaf& l) { return l.path == path; });
  return it == leaves.end() ? nullptr : &*it;
}

}  // namespace

std::vector<ConfigChange> config_changes(const std::string& before, const std::string& source,
                                         const std::string& after) {
  const std::vector<Leaf> was = leaves_of(before, source), is = leaves_of(after, "configuration");
  std::vector<ConfigChange> changes;
  for (const Leaf& l : was) {
    const Leaf* now = find(is, l.path);
    if (!now || now->whole != l.whole) changes.push_back({l.path, l.brief, now ? now->brief : "unset"});
  }
  for (const Leaf& l : is)
    if (!find(was, l.path)) changes.push_back({l.path, "unset", l.brief});
  return changes;
}

}  // namespace strata
