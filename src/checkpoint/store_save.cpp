// Saving: aside, synced, renamed, pruned.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/store.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

// Whatever fails in it, in one sentence about the step.
template <class F>
auto saving(std::int64_t step, const F& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    throw Error(concat("step ", step, " is not saved: ", e.what()));
  }
}

}  // namespace

void CheckpointStore::prepare() {
  make_root();
  if (access(root_.c_str(), W_OK) != 0)
    throw InputError(concat("cannot write in the folder of checkpoints ", root_, ": ", std::strerror(errno)));
}

void CheckpointStore::make_root() {
  std::error_code error;
  if (fs::is_directory(root_, error)) return;
  fs::create_directories(root_, error);
  if (error) throw InputError(concat("cannot make the folder of checkpoints ", root_, ": ", error.message()));
  const fs::path parent = fs::absolute(root_).lexically_normal().parent_path();
  disk_.sync_folder(parent.string());
}

void CheckpointStore::prune(std::int64_t saved) {
  std::vector<std::int64_t> steps;
  for (const Entry& entry : list()) steps.push_back(entry.step);
  for (const std::int64_t step : outlived(steps, saved, keep_))
    disk_.remove_folder((fs::path(root_) / step_name(step)).string());
}

std::unique_ptr<StagedFolder> CheckpointStore::stage(std::int64_t step, std::int64_t bytes) {
  make_root();
  if (const std::string lack = lacks_room(disk_, root_, bytes); !lack.empty())
    throw Error(concat("cannot save step ", step, " to ", root_, ": ", lack));
  return saving(step, [&] {
    return std::make_unique<StagedFolder>(disk_, (fs::path(root_) / step_name(step)).string());
  });
}

void CheckpointStore::finish(StagedFolder& folder, std::int64_t step,
                             const std::function<void(FolderWriter&)>& fill) {
  saving(step, [&] {
    fill(folder.writer());
    folder.add_manifest(step);
    folder.put_in_place();
  });
  folder.remove_replaced();
  prune(step);
}

void CheckpointStore::save(const Snapshot& snapshot) {
  check_names(snapshot);
  const std::unique_ptr<StagedFolder> folder = stage(snapshot.step, bytes_of(snapshot));
  finish(*folder, snapshot.step, [&](FolderWriter& to) { write(to, snapshot); });
}

std::string CheckpointStore::begin(std::int64_t step, std::int64_t bytes) {
  staged_ = stage(step, bytes);
  return staged_->path();
}

void CheckpointStore::write_part(const std::string& folder, int rank, const Snapshot& part) {
  checkpoint::write_part(disk_, folder, rank, part);
}

void CheckpointStore::complete(std::int64_t step, int ranks, const PartsWait& wait) {
  const std::unique_ptr<StagedFolder> folder = std::move(staged_);
  finish(*folder, step,
         [&](FolderWriter& to) { to.add_written(collect_parts(disk_, to.path(), ranks, wait)); });
}

}  // namespace strata::checkpoint
