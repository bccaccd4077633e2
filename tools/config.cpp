// The resolved configuration, with who gave each value; or the list of all keys.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/json_config.h"
#include "tools/commands.h"
#include "train/config.h"

namespace strata::tools {
namespace {

// One line a value: path, value as JSON, origin.
void print_table(const train::RunConfig& config, const std::vector<ValueOrigin>& origins) {
  const auto document = nlohmann::json::parse(config_json(config));
  const auto value_at = [&](const std::string& path) {
    std::string pointer = "/";  // data.train[0].path -> /data/train/0/path
    for (const char c : path)
      if (c != ']') pointer += c == '.' || c == '[' ? '/' : c;
    return document.at(nlohmann::json::json_pointer(pointer)).dump();
  };
  std::size_t width = 0, value_width = 0;
  for (const ValueOrigin& o : origins) {
    width = std::max(width, o.path.size());
    value_width = std::max(value_width, value_at(o.path).size());
  }
  const auto padded = [](const std::string& s, std::size_t n) {
    return s + std::string(n + 2 - s.size(), ' ');
  };
  for (const ValueOrigin& o : origins)
    std::cout << padded(o.path, width) << padded(value_at(o.path), value_width) << name_of(o.origin) << '\n';
}

}  // namespace

int config(const ConfigCommandArguments& a) {
  if (a.reference) {
    std::cout << config_reference<train::RunConfig>();
    return 0;
  }
  train::RunConfig resolved;
  const auto origins = load_config(resolved, a.config.file, a.config.overrides);
  if (a.json)
    std::cout << config_json(resolved);
  else
    print_table(resolved, origins);
  return 0;
}

}  // namespace strata::tools
