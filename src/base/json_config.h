// A config struct from a JSON file and `--set` overrides, and back. Messages are one sentence: file (or
// "command line"), path, value, what is allowed, and for an unknown key the nearest known one.
#pragma once
#include <string>
#include <vector>

#include "base/fields.h"

namespace strata {

enum class Origin { Default, File, CommandLine };
constexpr auto enum_names(Origin) {
  return std::array<std::string_view, 3>{"default", "file", "command line"};
}

// Who gave the value at `path` ("model.hidden_size"). One for each value that does something.
struct ValueOrigin {
  std::string path;
  Origin origin;
  bool operator==(const ValueOrigin&) const = default;
};

namespace detail {
std::string read_text_file(const std::string& file);
std::vector<ValueOrigin> load_config(const Group& root, const std::string& text, const std::string& source,
                                     const std::vector<std::string>& overrides);
std::string write_config(const Group& root);
std::string list_config(const Group& root);
}  // namespace detail

// Fills `config` from JSON text; what the text leaves out keeps the value it has. `source` names the text in
// messages. An override is "a.b=value": the value is JSON or a bare string, null takes the file's value away,
// the last of a key wins. Throws InputError on anything that is not exactly right.
template <class Config>
std::vector<ValueOrigin> load_config_text(Config& config, const std::string& text, const std::string& source,
                                          const std::vector<std::string>& overrides = {}) {
  return detail::load_config(FieldVisitor::group_of(config), text, source, overrides);
}

// The same from a file.
template <class Config>
std::vector<ValueOrigin> load_config(Config& config, const std::string& file,
                                     const std::vector<std::string>& overrides = {}) {
  return load_config_text(config, detail::read_text_file(file), file, overrides);
}

// The resolved config as JSON: every value that does something, unset ones as null. Loads back to an equal
// config.
template <class Config>
std::string config_json(Config config) {
  return detail::write_config(FieldVisitor::group_of(config));
}

// {"model.hidden_size": "file", ...}
std::string origins_json(const std::vector<ValueOrigin>& origins);

// Every key of a config: path, type, default, meaning, allowed values; one line each.
template <class Config>
std::string config_reference(Config config = {}) {
  return detail::list_config(FieldVisitor::group_of(config));
}

}  // namespace strata
