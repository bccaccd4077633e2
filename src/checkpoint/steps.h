// The names of checkpoints' folders, and which of them a policy keeps.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/config.h"

namespace strata::checkpoint {

// A step's folder, by its name alone.
struct Entry {
  std::int64_t step = 0;
  std::string folder;
};

// "step_00000010", and back; nothing for any other name.
std::string step_name(std::int64_t step);
std::optional<std::int64_t> step_of(const std::string& name);
// All steps below `root` by their folders' names, ascending; empty where there is no such folder.
std::vector<Entry> list_steps(const std::string& root);
// Which of `steps` (ascending) a policy lets go once `saved` is on the disk. Steps beyond `saved` are of
// another, abandoned run: never counted, never let go.
std::vector<std::int64_t> outlived(const std::vector<std::int64_t>& steps, std::int64_t saved,
                                   const KeepPolicy& keep);

}  // namespace strata::checkpoint
