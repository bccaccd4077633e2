// A JSON document as the user wrote it: members in order, numbers with their text, and who gave each value.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_config.h"

namespace strata {

struct JsonValue {
  enum class Kind { Null, Boolean, Integer, Real, String, Array, Object };

  Kind kind = Kind::Null;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;        // of Integer too
  std::string text = {};  // of a string; of a number as it was written
  std::vector<JsonValue> elements = {};
  std::vector<std::pair<std::string, JsonValue>> members = {};
  Origin origin = Origin::File;

  bool is_number() const { return kind == Kind::Integer || kind == Kind::Real; }
  // The member of this name, or nullptr.
  const JsonValue* find(const std::string& key) const;
  JsonValue* find(const std::string& key);
  // The value in one line of JSON, shortened to about 60 bytes for messages.
  std::string brief() const;
};

// Parses strict JSON (RFC 8259; no duplicate keys, no number beyond double, at most 64 levels).
// Throws InputError: "source:line:column: what is wrong".
JsonValue parse_json(const std::string& text, const std::string& source, Origin origin);

// The text as a JSON string, with quotes.
std::string json_quote(const std::string& text);
// Shortest text that reads back as the same double, always with a point or an exponent.
std::string json_number(double value);

}  // namespace strata
