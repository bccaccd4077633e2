#include "checkpoint/staged_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/digest.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMargin = 16 << 20;  // bytes that a save must leave free

std::string hidden(const fs::path& target, const char* kind) {
  return (target.parent_path() / concat(".", target.filename().string(), ".", kind, "-", ::getpid()))
      .string();
}

std::string largest_file(const std::map<std::string, Manifest::File>& files) {
  return std::max_element(files.begin(), files.end(),
                          [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; })
      ->first;
}

auto text_of(const std::string& text) {
  return [text](const auto& sink) { sink(std::as_bytes(std::span(text))); };
}

}  // namespace

// A new durable file from what `produce` gives to its sink.
template <class Produce>
Manifest::File FolderWriter::write(const std::string& name, const Produce& produce) {
  Disk::File file(disk_, inside(name));
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

void FolderWriter::add(const std::string& name, const SafetensorsStream& tensors) {
  STRATA_CHECK(is_plain_name(name), "a file named ", name);
  files_[name] = write(name, [&](const auto& sink) { tensors.write(sink); });
}

void FolderWriter::add(const std::string& name, const std::string& text) {
  STRATA_CHECK(is_plain_name(name), "a file named ", name);
  files_[name] = write(name, text_of(text));
}

void FolderWriter::add_written(const std::map<std::string, Manifest::File>& files) {
  for (const auto& [name, file] : files)
    STRATA_CHECK(files_.emplace(name, file).second, "two files are named ", name);
}

void FolderWriter::add_aside(const std::string& name, const std::string& text) { write(name, text_of(text)); }

StagedFolder::StagedFolder(Disk& disk, const std::string& target)
    : disk_(disk),
      parent_(fs::path(target).parent_path().string()),
      target_(target),
      old_(hidden(target, "old")),
      writer_(disk, hidden(target, "tmp")) {
  std::error_code ignored;
  fs::remove_all(path(), ignored);
  disk_.make_folder(path());
}

StagedFolder::~StagedFolder() {
  if (is_in_place_) return;
  std::error_code ignored;
  fs::remove_all(path(), ignored);
  if (!fs::exists(target_, ignored)) fs::rename(old_, target_, ignored);
}

void StagedFolder::add_manifest(std::int64_t step) {
  writer_.add_aside(kManifestName, manifest_text({step, writer_.files()}));
}

std::int64_t StagedFolder::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, file] : writer_.files()) bytes += file.bytes;
  return bytes;
}

// From the first rename on, what was there is under a hidden name that find_leftovers knows.
void StagedFolder::put_in_place() {
  disk_.sync_folder(path());
  if (disk_.flips_bits()) disk_.flip_bit(writer_.inside(largest_file(writer_.files())));
  if (fs::exists(target_)) disk_.rename(target_, old_);
  disk_.rename(path(), target_);
  is_in_place_ = true;
  disk_.sync_folder(parent_.empty() ? "." : parent_);
}

void StagedFolder::remove_replaced() {
  if (fs::exists(old_)) disk_.remove_folder(old_);
}

// ".step_00000010.tmp-4711"
std::vector<Leftover> find_leftovers(const std::string& parent) {
  std::vector<Leftover> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string hidden = entry.path().filename().string();
    const std::size_t dash = hidden.rfind('-'), dot = hidden.rfind('.', dash);
    if (hidden[0] != '.' || dash == std::string::npos || dot == std::string::npos || dot < 2) continue;
    const Leftover l{entry.path().string(), hidden.substr(1, dot - 1),
                     hidden.substr(dot + 1, dash - dot - 1)};
    const bool is_ours = (l.kind == "tmp" || l.kind == "old" || l.kind == "gone") &&
                         hidden.find_first_not_of("0123456789", dash + 1) == std::string::npos;
    if (is_ours && entry.is_directory(error)) found.push_back(l);
  }
  return found;
}

void clear_leftover(Disk& disk, const Leftover& l) {
  const std::string target = (fs::path(l.path).parent_path() / l.name).string();
  if (l.kind == "old" && !fs::exists(target))
    disk.rename(l.path, target);
  else
    disk.remove_folder(l.path);
}

std::string lacks_room(const Disk& disk, const std::string& folder, std::int64_t bytes) {
  const std::int64_t free = disk.free_bytes(folder);
  if (bytes + kMargin <= free) return "";
  return concat("it needs ", bytes, " bytes and ", kMargin, " to spare, the disk has ", free, " free");
}

}  // namespace strata::checkpoint
