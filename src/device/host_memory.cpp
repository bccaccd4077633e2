#include "device/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace strata::device {
namespace {

// Files of a control group.
struct GroupFiles {
  const char *limit, *use, *cache;  // cache: the line of memory.stat that can be given back
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};
constexpr std::int64_t kNoLimit = std::int64_t(1) << 60;  // version 1 writes a number near 2^63

// The number behind `key` in "key: 12 kB" or "key 12"; an empty key: the first number.
std::optional<std::int64_t> number_in(const std::string& path, const std::string& key = {}) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word, unit;
    std::int64_t n = 0;
    if (!key.empty() && !(words >> word && word == key)) continue;
    if (!(words >> n)) return std::nullopt;
    return words >> unit && unit == "kB" ? n * 1024 : n;
  }
  return std::nullopt;
}

void take_least(HostMemory& least, std::int64_t bytes, const std::string& limit) {
  if (least.limit.empty() || bytes < least.bytes) least = {std::max<std::int64_t>(bytes, 0), limit};
}

// The group at `path` below `mount` and all above it. Seen from inside a container its own path may lead
// nowhere: then only its mount's root is there.
void look_into_groups(HostMemory& least, const std::string& mount, const std::string& path,
                      const GroupFiles& files) {
  for (std::filesystem::path at = path;; at = at.parent_path()) {
    const std::string folder = mount + (at == "/" ? "" : at.string()) + "/";
    const auto limit = number_in(folder + files.limit), use = number_in(folder + files.use);
    if (limit && use && *limit < kNoLimit)
      take_least(least, *limit - *use + number_in(folder + "memory.stat", files.cache).value_or(0),
                 folder + files.limit);
    if (!at.has_relative_path()) return;
  }
}

}  // namespace

HostMemory host_memory_left(const std::string& root) {
  HostMemory least;
  if (const auto bytes = number_in(root + "/proc/meminfo", "MemAvailable:"))
    take_least(least, *bytes, root + "/proc/meminfo");
  // "4:memory:/path" is of version 1, "0::/path" of version 2.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (kinds == ",,") look_into_groups(least, root + "/sys/fs/cgroup", path, kVersion2);
    if (kinds.find(",memory,") != std::string::npos)
      look_into_groups(least, root + "/sys/fs/cgroup/memory", path, kVersion1);
  }
  return least;
}

}  // namespace strata::device
