#include "checkpoint/store.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/weight_set.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

bool is_of_a_step(const Leftover& l) { return step_of(l.name).has_value(); }

std::string first_of(const std::vector<std::string>& faults) {
  return faults.size() == 1 ? faults[0] : concat(faults[0], " (and ", faults.size() - 1, " more)");
}

}  // namespace

std::string Opened::path(const std::string& name) const {
  if (!has(name)) throw InputError(concat(folder_, " has no file ", name));
  return (fs::path(folder_) / name).string();
}

SafetensorsFile Opened::file(const std::string& name) const { return SafetensorsFile(path(name)); }

std::string Opened::text(const std::string& name) const {
  const InputFile file(path(name));
  std::string text(std::size_t(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Opened open_checkpoint(const std::string& folder, Check check) {
  Verification v = verify(folder, check);
  if (!v.sound()) throw InputError(concat(folder, " is damaged: ", first_of(v.faults)));
  return Opened(folder, std::move(v.manifest));
}

std::string Opened::weights_path() const { return path(has(kIndexName) ? kIndexName : "model.safetensors"); }

void CheckpointStore::clear_leftovers() {
  for (const Leftover& l : find_leftovers(root_))
    if (is_of_a_step(l)) clear_leftover(disk_, l);
}

void CheckpointStore::remove_all() {
  for (const Leftover& l : find_leftovers(root_))
    if (is_of_a_step(l)) disk_.remove_folder(l.path);
  for (const Entry& entry : list()) disk_.remove_folder(entry.folder);
}

// Returns the new name.
std::string CheckpointStore::set_aside(const Entry& entry) {
  std::string name = entry.folder + ".damaged";
  for (int n = 2; fs::exists(name); ++n) name = concat(entry.folder, ".damaged-", n);
  disk_.rename(entry.folder, name);
  disk_.sync_folder(root_);
  return name;
}

std::optional<Opened> CheckpointStore::newest_sound(const Report& report, Check check) {
  std::vector<Entry> entries = list();
  try {
    clear_leftovers();
    entries = list();  // a step may have come back
  } catch (const Error& e) {
    report(concat("what an interrupted save left stays: ", e.what()));
  }
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    Verification v = verify(entry->folder, check);
    if (v.sound()) return Opened(entry->folder, std::move(v.manifest));
    std::string outcome;
    try {
      outcome = "set aside as " + fs::path(set_aside(*entry)).filename().string();
    } catch (const Error& e) {
      outcome = concat("left there, ", e.what());
    }
    report(concat(entry->folder, " is damaged and passed over: ", first_of(v.faults), "; ", outcome));
  }
  return {};
}

}  // namespace strata::checkpoint
