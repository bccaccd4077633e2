// What a checkpoint, or one rank's part of it, holds, on the host: the tensors of each safetensors file and
// the text files beside them.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/view.h"
#include "checkpoint/cut.h"
#include "checkpoint/staged_folder.h"

namespace strata::checkpoint {

struct HostTensor {
  std::string name;
  DType dtype = DType::Float32;
  Dims dims;
  std::vector<std::byte> bytes;  // numel() * size_of(dtype), row-major
  std::optional<Cut> cut = {};   // of which tensor this is a piece; then it has one dimension
};

// File names are plain ("model.safetensors"); those of `files` end in .safetensors, manifest.json is taken.
struct Snapshot {
  std::int64_t step = 0;
  std::map<std::string, std::vector<HostTensor>> files;  // tensor names are unique in a file; any order
  std::map<std::string, std::string> texts;              // "config.json", "state.json", ...
};

// Error where a file may not have its name.
void check_names(const Snapshot& snapshot);
// Of its files.
std::int64_t bytes_of(const Snapshot& snapshot);
// Durable files; Error where they cannot be written.
void write(FolderWriter& folder, const Snapshot& snapshot);

}  // namespace strata::checkpoint
