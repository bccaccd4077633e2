// A folder that appears whole or not at all: its files are written beside its place, under a hidden name,
// made durable, and one rename puts them there. What it replaces steps aside first, under a hidden name too.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "checkpoint/disk.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace strata::checkpoint {

// New durable files in a folder that is there, and what a manifest says of them.
class FolderWriter {
 public:
  FolderWriter(Disk& disk, std::string folder) : disk_(disk), folder_(std::move(folder)) {}

  const std::string& path() const { return folder_; }
  std::string inside(const std::string& name) const { return folder_ + "/" + name; }
  void add(const std::string& name, const SafetensorsStream& tensors);
  void add(const std::string& name, const std::string& text);
  // Files that others wrote there: durable, and closed. Two of one name are an Error.
  void add_written(const std::map<std::string, Manifest::File>& files);
  // A file that no manifest lists.
  void add_aside(const std::string& name, const std::string& text);
  const std::map<std::string, Manifest::File>& files() const { return files_; }

 private:
  template <class Produce>
  Manifest::File write(const std::string& name, const Produce& produce);

  Disk& disk_;
  std::string folder_;
  std::map<std::string, Manifest::File> files_;
};

class StagedFolder {
 public:
  // The folder above `target` is there; what it holds under the hidden names of this process goes. Error
  // where nothing can be written.
  StagedFolder(Disk& disk, const std::string& target);
  // Not in place: everything is as it was.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;

  // Where the files are until they are in place.
  const std::string& path() const { return writer_.path(); }
  void add(const std::string& name, const SafetensorsStream& tensors) { writer_.add(name, tensors); }
  void add(const std::string& name, const std::string& text) { writer_.add(name, text); }
  FolderWriter& writer() { return writer_; }
  // manifest.json: sizes and checksums of what was added.
  void add_manifest(std::int64_t step);
  std::int64_t bytes() const;  // of what was added so far
  // All that was added is durable at its place once this returns.
  void put_in_place();
  // After that: lets go of what was there before.
  void remove_replaced();

 private:
  Disk& disk_;
  std::string parent_, target_, old_;
  FolderWriter writer_;
  bool is_in_place_ = false;
};

// What a killed process left beside a folder's place: an unfinished folder (tmp), the one it was to replace
// (old), or one being removed (gone).
struct Leftover {
  std::string path, name, kind;  // name: of the folder
};
std::vector<Leftover> find_leftovers(const std::string& parent);
// Removes it, or puts back a replaced folder that has no successor.
void clear_leftover(Disk& disk, const Leftover& leftover);

// Empty where `bytes` fit below `folder` with some to spare; else "it needs ..., the disk has ... free".
std::string lacks_room(const Disk& disk, const std::string& folder, std::int64_t bytes);

}  // namespace strata::checkpoint
