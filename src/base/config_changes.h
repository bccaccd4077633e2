// What differs between two resolved configurations.
#pragma once
#include <string>
#include <vector>

namespace strata {

// Values as short JSON; "unset" where one side has none.
struct ConfigChange {
  std::string path;  // "optimizer.lr"; lists are one value
  std::string before, after;
  bool operator==(const ConfigChange&) const = default;
};

// Both as config_json() writes them; `source` names the first in messages. In the order of the first, then
// what only the second has.
std::vector<ConfigChange> config_changes(const std::string& before, const std::string& source,
                                         const std::string& after);

}  // namespace strata
