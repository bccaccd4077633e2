#include "data/jsonl.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace strata::data {
namespace {

using nlohmann::json;

// Keeps the one string that is wanted; the rest of the line is only checked.
class TextFinder : public json::json_sax_t {
 public:
  TextFinder(const std::string& key, const std::string& where) : key_(key), where_(where) {}

  std::string take() {
    if (!found_) refuse("no key \"", key_, "\"");
    return std::move(text_);
  }

  bool string(string_t& value) override {
    if (is_wanted_) {
      text_ = std::move(value);
      found_ = true;
    }
    return scalar(!is_wanted_);
  }
  bool null() override { return scalar(true); }
  bool boolean(bool) override { return scalar(true); }
  bool number_integer(number_integer_t) override { return scalar(true); }
  bool number_unsigned(number_unsigned_t) override { return scalar(true); }
  bool number_float(number_float_t, const string_t&) override { return scalar(true); }
  bool binary(binary_t&) override { return scalar(true); }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    is_wanted_ = depth_ == 1 && name == key_;
    if (is_wanted_ && found_) refuse("the key \"", key_, "\" is there twice");
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    std::string reason = e.what();
    if (const std::size_t dash = reason.find(" - "); dash != std::string::npos)
      reason = reason.substr(dash + 3);
    reason = reason.substr(0, reason.find("; last read"));
    throw InputError(concat(where_, ":", position, ": not valid JSON: ", reason));
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw InputError(concat(where_, ": ", parts...));
  }
  // A value: `is_other` if it is not the text that is looked for.
  bool scalar(bool is_other) {
    if (depth_ == 0) refuse("the line is not a JSON object");
    if (is_wanted_ && is_other) refuse("\"", key_, "\" is not a string");
    is_wanted_ = false;
    return true;
  }
  bool open(bool is_object) {
    if (depth_ == 0 && !is_object) refuse("the line is not a JSON object");
    if (is_wanted_) refuse("\"", key_, "\" is not a string");
    ++depth_;
    return true;
  }

  const std::string& key_;
  const std::string& where_;
  std::int64_t depth_ = 0;
  bool is_wanted_ = false, found_ = false;
  std::string text_;
};

}  // namespace

std::string json_line_text(std::string_view line, const std::string& key, const std::string& where) {
  TextFinder finder(key, where);
  json::sax_parse(line.begin(), line.end(), &finder);
  return finder.take();
}

}  // namespace strata::data
