// Saving: aside, synced, renamed, pruned.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "checkpoint/store.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMargin = 16 << 20;  // bytes that a save must leave free

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

// A new durable file from what `produce` gives to its sink.
template <class Produce>
Manifest::File write_file(Disk& disk, const std::string& path, const Produce& produce) {
  Disk::File file(disk, path);
  Digest digest;
  std::int64_t bytes = 0;
  produce([&](std::span<const std::byte> part) {
    file.write(part);
    digest.add(part);
    bytes += std::int64_t(part.size());
  });
  file.finish();
  return {bytes, digest.text()};
}

std::string largest_file(const Manifest& manifest) {
  return std::max_element(manifest.files.begin(), manifest.files.end(),
                          [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; })
      ->first;
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

void CheckpointStore::write_aside(const Snapshot& snapshot, const std::string& aside) {
  disk_.make_folder(aside);
  Manifest manifest;
  manifest.step = snapshot.step;
  const fs::path folder(aside);
  const auto text_producer = [](const std::string& text) {
    return [&text](const auto& sink) { sink(std::as_bytes(std::span(text))); };
  };
  for (const auto& [name, tensors] : snapshot.files) {
    const SafetensorsStream stream = stream_of(tensors);
    manifest.files[name] =
        write_file(disk_, (folder / name).string(), [&](const auto& sink) { stream.write(sink); });
  }
  for (const auto& [name, text] : snapshot.texts)
    manifest.files[name] = write_file(disk_, (folder / name).string(), text_producer(text));
  write_file(disk_, (folder / kManifestName).string(), text_producer(manifest_text(manifest)));
  disk_.sync_folder(aside);
  if (disk_.flips_bits()) disk_.flip_bit((folder / largest_file(manifest)).string());
}

// From the first rename on, the old checkpoint of this step is under a hidden name that a restart knows.
void CheckpointStore::move_into_place(const std::string& aside, const std::string& target,
                                      const std::string& old) {
  if (fs::exists(target)) disk_.rename(target, old);
  disk_.rename(aside, target);
  disk_.sync_folder(root_);
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
  const std::int64_t need = bytes_of(snapshot), free = disk_.free_bytes(root_);
  if (need + kMargin > free)
    throw Error(concat("cannot save step ", snapshot.step, " to ", root_, ": it needs ", need, " bytes and ",
                       kMargin, " to spare, the disk has ", free, " free"));
  const std::string name = step_name(snapshot.step), target = (fs::path(root_) / name).string();
  const std::string aside = hidden(name, "tmp"), old = hidden(name, "old");
  std::error_code ignored;
  fs::remove_all(aside, ignored);
  try {
    write_aside(snapshot, aside);
    move_into_place(aside, target, old);
  } catch (const std::exception& e) {
    fs::remove_all(aside, ignored);
    if (!fs::exists(target)) fs::rename(old, target, ignored);
    throw Error(concat("step ", snapshot.step, " is not saved: ", e.what()));
  }
  if (fs::exists(old)) disk_.remove_folder(old);
  prune(snapshot.step);
}

}  // namespace strata::checkpoint
