// Strict JSON into JsonValue, on nlohmann's SAX parser; the only file that knows nlohmann.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_value.h"

namespace strata {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;

// "line:column" of the byte before `position` (which counts from 1).
std::string place(const std::string& text, std::size_t position) {
  std::size_t line = 1, column = 0;
  const std::size_t end = std::min(position, text.size());
  for (std::size_t i = 0; i < end; ++i) {
    if (text[i] == '\n')
      ++line, column = 0;
    else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80)
      ++column;
  }
  return concat(line, ":", std::max<std::size_t>(column, 1));
}

// The word that ends at or runs through byte `position`, if it is one that other languages take for a number.
bool is_named_number(const std::string& text, std::size_t position) {
  const auto is_letter = [&](std::size_t i) {
    return i < text.size() && std::isalpha(static_cast<unsigned char>(text[i]));
  };
  std::size_t begin = std::max<std::size_t>(position, 1) - 1, end = begin;
  while (begin > 0 && is_letter(begin - 1)) --begin;
  while (is_letter(end)) ++end;
  std::string word = text.substr(begin, end - begin);
  for (char& c : word) c = char(std::tolower(static_cast<unsigned char>(c)));
  return word == "nan" || word == "inf" || word == "infinity";
}

// nlohmann's sentence without its number, its own position and the text it had read.
std::string plain(const std::string& message) {
  const std::size_t dash = message.find(" - "), number = message.find('\'');
  if (message.find("number overflow") != std::string::npos && number != std::string::npos)
    return "the number " + message.substr(number) + " is too large";
  if (dash == std::string::npos) return message;
  std::string reason = message.substr(dash + 3);
  const std::size_t read = reason.find("; last read: '"), expected = reason.rfind("'; expected ");
  if (read != std::string::npos) {
    const bool has_tail = expected != std::string::npos && expected > read;
    reason = reason.substr(0, read) + (has_tail ? reason.substr(expected + 1) : "");
  }
  return "not valid JSON: " + reason;
}

class Builder : public json::json_sax_t {
 public:
  Builder(const std::string& text, const std::string& source, Origin origin)
      : text_(text), source_(source), origin_(origin) {}

  JsonValue take() { return std::move(root_); }

  bool null() override { return add(JsonValue::Kind::Null), true; }
  bool boolean(bool value) override { return add(JsonValue::Kind::Boolean).boolean = value, true; }
  bool number_integer(number_integer_t value) override { return integer(value), true; }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= number_unsigned_t(std::numeric_limits<std::int64_t>::max()))
      return integer(std::int64_t(value)), true;
    return number_float(double(value), std::to_string(value));
  }
  bool number_float(number_float_t value, const string_t& written) override {
    JsonValue& v = add(JsonValue::Kind::Real);
    v.real = value;
    v.text = written;
    return true;
  }
  bool string(string_t& value) override { return add(JsonValue::Kind::String).text = std::move(value), true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonValue::Kind::Object); }
  bool start_array(std::size_t) override { return open(JsonValue::Kind::Array); }
  bool end_object() override { return open_.pop_back(), true; }
  bool end_array() override { return open_.pop_back(), true; }
  bool key(string_t& name) override {
    if (open_.back()->find(name)) throw InputError(concat(source_, ": ", path(name), " is given twice"));
    open_.back()->members.emplace_back(name, JsonValue{});
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    const bool named = is_named_number(text_, position);
    throw InputError(concat(source_, ":", place(text_, position), ": ",
                            named ? "not valid JSON: NaN and infinity are no numbers" : plain(error.what())));
  }

 private:
  void integer(std::int64_t value) {
    JsonValue& v = add(JsonValue::Kind::Integer);
    v.integer = value;
    v.real = double(value);
    v.text = std::to_string(value);
  }
  bool open(JsonValue::Kind kind) {
    if (open_.size() == kMaxDepth)
      throw InputError(concat(source_, ": nested deeper than ", kMaxDepth, " levels"));
    return open_.push_back(&add(kind)), true;
  }
  JsonValue& add(JsonValue::Kind kind) {
    JsonValue* slot = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      slot = parent.kind == JsonValue::Kind::Array ? &parent.elements.emplace_back()
                                                   : &parent.members.back().second;
    }
    slot->kind = kind;
    slot->origin = origin_;
    return *slot;
  }
  std::string path(const std::string& last) const {
    std::string path;
    for (const JsonValue* v : open_)
      path += v->members.empty() || v == open_.back() ? "" : v->members.back().first + ".";
    return path + last;
  }

  const std::string& text_;
  const std::string& source_;
  Origin origin_;
  JsonValue root_;
  std::vector<JsonValue*> open_;  // pointers stay valid: only the innermost container grows
};

}  // namespace

JsonValue parse_json(const std::string& text, const std::string& source, Origin origin) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(source + ": is empty, expected a JSON object");
  Builder builder(text, source, origin);
  json::sax_parse(text, &builder);
  return builder.take();
}

std::string json_quote(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string json_number(double value) { return json(value).dump(); }

}  // namespace strata
