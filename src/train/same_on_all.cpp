#include "train/same_on_all.h"

#include <algorithm>
#include <functional>

#include "base/config_changes.h"
#include "base/json_config.h"
#include "base/json_value.h"

namespace strata::train {

void same_on_all(comm::Communicator& members, const std::string& facts) {
  if (members.size() == 1) return;
  const auto all = comm::gather_texts(members, std::to_string(std::hash<std::string>{}(facts)));
  const auto other = std::find_if(all.begin(), all.end(), [&](const std::string& t) { return t != all[0]; });
  if (other == all.end()) return;
  const int odd = int(other - all.begin()), rank = members.rank();
  const auto both = comm::gather_texts(members, rank == 0 || rank == odd ? facts : "");
  const std::string first_name = concat("rank ", members.world_rank(0));
  const std::string odd_name = concat("rank ", members.world_rank(odd));
  const std::vector<ConfigChange> changes = config_changes(both[0], first_name, both[odd]);
  STRATA_CHECK(!changes.empty(), odd_name, " was given what ", first_name,
               " was, in other words: ", both[odd]);
  const ConfigChange& c = changes.front();
  const std::string seen =
      c.before == c.after  // long values are cut
          ? concat(" differs between ", odd_name, " and ", first_name, " behind ", c.before)
          : concat(" is ", c.after, " on ", odd_name, " and ", c.before, " on ", first_name);
  throw InputError(concat(c.path, seen, ": all ranks need the same command, configuration and data"));
}

std::string started_with(const std::string& command, const RunConfig& config) {
  RunConfig c = config;
  c.backend.threads = 0;
  const std::string json = config_json(c);
  return concat("{\"command\": ", json_quote(command), ",", json.substr(json.find('{') + 1));
}

std::string reads(const std::string& train, const std::vector<data::ValidationData>& validation) {
  std::string facts;
  const auto add = [&](const std::string& name, const std::string& fingerprint) {
    facts += concat(facts.empty() ? "{" : ", ", json_quote("the content of " + name), ": ",
                    json_quote(fingerprint));
  };
  if (!train.empty()) add("data.train", train);
  for (const data::ValidationData& set : validation) add("data.validation." + set.name(), set.fingerprint());
  return facts.empty() ? "{}" : facts + "}";
}

}  // namespace strata::train
