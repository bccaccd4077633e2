// Saving: aside, synced, renamed, pruned.
#include <filesystem>

#include "base/error.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/store.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

void check_names(const Snapshot& snapshot) {
  STRATA_CHECK(snapshot.step >= 0, "step ", snapshot.step);
  for (const auto& [name, tensors] : snapshot.files)
    STRATA_CHECK(is_plain_name(name) && !snapshot.texts.count(name), "a file of a checkpoint named ", name);
  for (const auto& [name, text] : snapshot.texts)
    STRATA_CHECK(is_plain_name(name), "a file of a checkpoint named ", name);
}

SafetensorsStream stream_of(const std::vector<HostTensor>& tensors) {
  std::vector<TensorSource> sources;
  for (const HostTensor& t : tensors)
    sources.push_back(
        {t.name, t.dtype, {t.dims.extent.begin(), t.dims.extent.begin() + t.dims.rank}, t.bytes});
  return SafetensorsStream(std::move(sources), {{"format", "pt"}});
}

std::int64_t bytes_of(const Snapshot& snapshot) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensors] : snapshot.files) bytes += stream_of(tensors).bytes();
  for (const auto& [name, text] : snapshot.texts) bytes += std::int64_t(text.size());
  return bytes;
}

void fill(StagedFolder& folder, const Snapshot& snapshot) {
  for (const auto& [name, tensors] : snapshot.files) folder.add(name, stream_of(tensors));
  for (const auto& [name, text] : snapshot.texts) folder.add(name, text);
  folder.add_manifest(snapshot.step);
}

}  // namespace

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

void CheckpointStore::save(const Snapshot& snapshot) {
  check_names(snapshot);
  make_root();
  if (const std::string lack = lacks_room(disk_, root_, bytes_of(snapshot)); !lack.empty())
    throw Error(concat("cannot save step ", snapshot.step, " to ", root_, ": ", lack));
  std::optional<StagedFolder> folder;
  try {
    folder.emplace(disk_, (fs::path(root_) / step_name(snapshot.step)).string());
    fill(*folder, snapshot);
    folder->put_in_place();
  } catch (const std::exception& e) {
    folder.reset();
    throw Error(concat("step ", snapshot.step, " is not saved: ", e.what()));
  }
  folder->remove_replaced();
  prune(snapshot.step);
}

}  // namespace strata::checkpoint
