#include "checkpoint/steps.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/error.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step_";

}  // namespace

std::string step_name(std::int64_t step) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%08lld", (long long)step);
  return std::string(kPrefix) + digits;
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  std::int64_t step = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  if (step < 0 || step_name(step) != name) return {};
  return step;
}

std::vector<Entry> list_steps(const std::string& root) {
  std::vector<Entry> entries;
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) return entries;
  fs::directory_iterator each(root, error);
  if (error) throw InputError(concat("cannot read the folder ", root, ": ", error.message()));
  for (const fs::directory_entry& entry : each) {
    const auto step = step_of(entry.path().filename().string());
    if (step && entry.is_directory(error)) entries.push_back({*step, entry.path().string()});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

std::vector<std::int64_t> outlived(const std::vector<std::int64_t>& steps, std::int64_t saved,
                                   const KeepPolicy& keep) {
  std::vector<std::int64_t> gone;
  if (keep.most_recent_k < 1) return gone;
  std::int64_t newer = 0;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (*step > saved) continue;
    const bool is_kept = keep.retain_interval > 0 && *step % keep.retain_interval == 0;
    if (newer++ >= keep.most_recent_k && !is_kept) gone.insert(gone.begin(), *step);
  }
  return gone;
}

}  // namespace strata::checkpoint
