// The folder of a run's checkpoints. One folder per step, ROOT/step_00000010; it appears there by one rename
// after all that is in it has reached the disk, so that whoever looks finds it whole or not at all. Its last
// file, manifest.json, lists size and checksum of all others.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/disk.h"
#include "checkpoint/manifest.h"
#include "checkpoint/parts.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/steps.h"

namespace strata::checkpoint {

// A checkpoint found sound, to be read.
class Opened {
 public:
  Opened(std::string folder, Manifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

  std::int64_t step() const { return manifest_.step; }
  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  bool has(const std::string& name) const { return manifest_.files.count(name) > 0; }
  // A file of the checkpoint; InputError where it has none of that name.
  SafetensorsFile file(const std::string& name) const;
  std::string text(const std::string& name) const;
  // What a WeightSet reads: model.safetensors, or the index of several such files.
  std::string weights_path() const;

 private:
  std::string path(const std::string& name) const;
  std::string folder_;
  Manifest manifest_;
};

// Opens one step's folder. InputError with its first fault where it is not sound.
Opened open_checkpoint(const std::string& folder, Check check = Check::Checksums);

class CheckpointStore {
 public:
  using Report = std::function<void(const std::string& sentence)>;

  CheckpointStore(std::string root, KeepPolicy keep) : root_(std::move(root)), keep_(keep) {}

  const std::string& root() const { return root_; }
  // Makes the folder now: what cannot become one, or may not be written in, is an InputError.
  void prepare();
  // Returns once the checkpoint is durable, then lets go of those that the policy does not keep. A step saved
  // again is replaced. Error where it cannot be written, or does not fit on the disk: then everything is as
  // before. InputError where root is not, and cannot become, a folder.
  void save(const Snapshot& snapshot);

  // The same by several ranks: the first begins, of `bytes` in all, and gets the folder that every rank, the
  // first too, writes its part to; then the first completes it.
  std::string begin(std::int64_t step, std::int64_t bytes);
  void write_part(const std::string& folder, int rank, const Snapshot& part);
  void complete(std::int64_t step, int ranks, const PartsWait& wait);

  std::vector<Entry> list() const { return list_steps(root_); }
  // The newest sound checkpoint, if any. Finishes or removes what killed saves left behind. A damaged one is
  // renamed to step_...damaged, reported in one sentence, and passed over. InputError where the newest cannot
  // be judged: no permission, or of another format version.
  std::optional<Opened> newest_sound(const Report& report, Check check = Check::Checksums);
  // Removes every checkpoint and what killed saves left, so that a run can start anew. Damaged ones stay.
  void remove_all();

  // For tests: what goes wrong from now on.
  void set_faults(const SaveFaults& faults) { disk_ = Disk(faults); }

 private:
  void make_root();
  std::unique_ptr<StagedFolder> stage(std::int64_t step, std::int64_t bytes);
  void finish(StagedFolder& folder, std::int64_t step, const std::function<void(FolderWriter&)>& fill);
  void prune(std::int64_t saved);
  void clear_leftovers();
  std::string set_aside(const Entry& entry);

  std::string root_;
  KeepPolicy keep_;
  Disk disk_;
  std::unique_ptr<StagedFolder> staged_;  // between begin() and complete()
};

}  // namespace strata::checkpoint
