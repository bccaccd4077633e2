// What lies at a path: a checkpoint, a folder of checkpoints, or weights alone. Reads headers, no data.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/cut.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/steps.h"

namespace strata::checkpoint {

struct FileSummary {
  std::string name;
  std::int64_t bytes = 0;   // of the file
  std::int64_t values = 0;  // in all tensors
  std::map<std::string, FileTensor> tensors;
  std::map<std::string, std::int64_t> values_of_type = {};  // "F32" -> values
  std::map<std::string, std::string> metadata;
  Cuts cuts = {};  // of which tensors it has pieces
};

struct Summary {
  enum class Kind { Step, Root, Weights };

  Kind kind = Kind::Weights;
  std::string path;
  std::optional<std::int64_t> step = {};          // Kind::Step
  std::vector<Entry> steps = {};                  // Kind::Root, ascending
  std::vector<FileSummary> files = {};            // safetensors files; Kind::Root: none
  std::map<std::string, std::string> texts = {};  // Kind::Step: the other files
};

// Whether this is the folder of one checkpoint: named as a step, or with a manifest in it.
bool is_step_folder(const std::string& path);

// PATH is the folder of one step, a folder that holds such folders or a run's, a safetensors file, an index
// of shards or a folder with either. InputError where it is none of these or cannot be read.
Summary summarize(const std::string& path);

}  // namespace strata::checkpoint
