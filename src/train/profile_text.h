// A profile for people and programs: Chrome's trace events, a table, a summary in JSON.
#pragma once
#include <string>
#include <vector>

#include "train/profile_sums.h"

namespace strata::train {

struct RankProfile {
  int rank = 0;
  std::string position;  // in the mesh
  ProfileSums sums;
};

// The events of a rank, separated by commas; process `rank`, microseconds since `zero`. Threads 1, 2 and 3
// are compute, actions and communication; operations under way overlap, so they are asynchronous events.
std::string trace_events(const Timeline& timeline, int rank, const std::string& position, std::int64_t zero);

// ranks: those that were watched, at least one.
std::string profile_json(std::int64_t first, std::int64_t last, const std::vector<RankProfile>& ranks);
std::vector<std::string> profile_table(std::int64_t first, std::int64_t last,
                                       const std::vector<RankProfile>& ranks);

}  // namespace strata::train
