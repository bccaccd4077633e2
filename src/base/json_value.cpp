// Members by name, and a value in one short line.
#include "base/json_value.h"

#include <utility>

namespace strata {

const JsonValue* JsonValue::find(const std::string& key) const {
  for (const auto& member : members)
    if (member.first == key) return &member.second;
  return nullptr;
}

JsonValue* JsonValue::find(const std::string& key) {
  return const_cast<JsonValue*>(static_cast<const JsonValue*>(this)->find(key));
}

namespace {

void append(const JsonValue& v, std::string& out) {
  constexpr std::size_t kEnough = 60;
  if (out.size() > kEnough) return;
  const char* separator = "";
  switch (v.kind) {
    case JsonValue::Kind::Null:
      out += "null";
      break;
    case JsonValue::Kind::Boolean:
      out += v.boolean ? "true" : "false";
      break;
    case JsonValue::Kind::Integer:
    case JsonValue::Kind::Real:
      out += v.text;
      break;
    case JsonValue::Kind::String:
      out += json_quote(v.text);
      break;
    case JsonValue::Kind::Array:
      out += "[";
      for (const JsonValue& e : v.elements) out += std::exchange(separator, ", "), append(e, out);
      out += "]";
      break;
    case JsonValue::Kind::Object:
      out += "{";
      for (const auto& [key, value] : v.members)
        out += std::exchange(separator, ", ") + json_quote(key) + ": ", append(value, out);
      out += "}";
  }
}

}  // namespace

std::string JsonValue::brief() const {
  constexpr std::size_t kMost = 64;
  std::string out;
  append(*this, out);
  if (out.size() <= kMost) return out;
  std::size_t end = kMost;
  while ((static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;  // not inside a UTF-8 character
  return out.substr(0, end) + "...";
}

}  // namespace strata
