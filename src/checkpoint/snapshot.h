// What a checkpoint holds, on the host: the tensors of each safetensors file and the text files beside them.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/view.h"

namespace strata::checkpoint {

struct HostTensor {
  std::string name;
  DType dtype = DType::Float32;
  Dims dims;
  std::vector<std::byte> bytes;  // numel() * size_of(dtype), row-major
};

// File names are plain ("model.safetensors"); those of `files` end in .safetensors, manifest.json is taken.
struct Snapshot {
  std::int64_t step = 0;
  std::map<std::string, std::vector<HostTensor>> files;  // tensor names are unique in a file; any order
  std::map<std::string, std::string> texts;              // "config.json", "state.json", ...
};

}  // namespace strata::checkpoint
