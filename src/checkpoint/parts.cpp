#include "checkpoint/parts.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kShortestNap(2), kLongestNap(500);

std::string part_name(int rank) { return concat(".part-", rank); }
std::string in(const std::string& folder, const std::string& name) { return folder + "/" + name; }
std::string mark_of(const std::string& folder, int rank) { return in(folder, part_name(rank) + ".failed"); }

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Grows while anybody writes.
std::int64_t bytes_in(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::uintmax_t size = entry.file_size(error);
    bytes += error ? 1 : 1 + std::int64_t(size);
  }
  return bytes;
}

std::string read_text(const std::string& path) {
  const InputFile file(path);
  std::string text(std::size_t(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

// The first rank of which there is neither a part nor a mark; `ranks` if there is none.
int first_missing(const std::string& folder, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    if (!exists(in(folder, part_name(rank))) && !exists(mark_of(folder, rank))) return rank;
  return ranks;
}

void wait_for_all(const std::string& folder, int ranks, const PartsWait& wait) {
  Clock::time_point changed = Clock::now();
  std::int64_t bytes = -1;
  for (auto nap = kShortestNap;; nap = std::min(kLongestNap, nap * 2)) {
    const int missing = first_missing(folder, ranks);
    if (missing == ranks) return;
    if (wait.given_up && *wait.given_up) throw Error(concat("rank ", missing, " has not written its part"));
    if (const std::int64_t now = bytes_in(folder); now != bytes) {
      bytes = now;
      changed = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - changed).count() > wait.patience)
      throw Error(concat("rank ", missing, " has not written its part, and nothing in ", folder,
                         " has changed for ", wait.patience, " seconds"));
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace

void write_part(Disk& disk, const std::string& folder, int rank, const Snapshot& snapshot) {
  try {
    FolderWriter writer(disk, folder);
    write(writer, snapshot);
    const std::string part = part_name(rank), unfinished = part + ".tmp";
    writer.add_aside(unfinished, manifest_text({snapshot.step, writer.files()}));
    disk.sync_folder(folder);  // the names, too, reach the disk from here
    disk.rename(in(folder, unfinished), in(folder, part));
  } catch (const std::exception&) {
    const std::ofstream mark(mark_of(folder, rank));  // where even this fails, patience ends
    throw;
  }
}

std::map<std::string, Manifest::File> collect_parts(Disk& disk, const std::string& folder, int ranks,
                                                    const PartsWait& wait) {
  wait_for_all(folder, ranks, wait);
  std::map<std::string, Manifest::File> all;
  for (int rank = 0; rank < ranks; ++rank) {
    if (exists(mark_of(folder, rank))) throw Error(concat("rank ", rank, " could not write its part"));
    const std::string part = in(folder, part_name(rank));
    for (const auto& [name, file] : parse_manifest(read_text(part), part).files)
      STRATA_CHECK(all.emplace(name, file).second, "two ranks write ", name);
  }
  for (int rank = 0; rank < ranks; ++rank) disk.remove_file(in(folder, part_name(rank)));
  return all;
}

}  // namespace strata::checkpoint
