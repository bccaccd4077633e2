// A model to read, wherever it lies.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/named_weights.h"
#include "train/config.h"

namespace strata::train {

enum class SourceKind { Checkpoint, Export, HuggingFace };
constexpr auto enum_names(SourceKind) {
  return std::array<std::string_view, 3>{"checkpoint", "exported model", "Hugging Face model"};
}

struct ModelSource {
  SourceKind kind = SourceKind::Checkpoint;
  std::string folder;     // where its files are: of a run's folder, the newest checkpoint's
  std::int64_t step = 0;  // after how many steps it was saved
  RunConfig config;       // the model, and what else is known of its run
  checkpoint::NamedWeights weights;
  std::vector<std::string> notes;  // about what a Hugging Face model has that is not taken over

  // "FOLDER (checkpoint, step 10)"
  std::string text() const;
};

// PATH is told by what is in it: a checkpoint or a folder that `checkpoint convert` wrote, both compared with
// their manifests first; a folder of checkpoints or a run's folder, for its newest; a folder with config.json
// of this program or of Hugging Face (deepseek_v3, deepseek_v2), and safetensors files, one or sharded.
// Overrides are "a.b=value", of the configuration.
ModelSource open_model(const std::string& path, const std::vector<std::string>& overrides = {});
// A configuration file, and weights in a file or a folder of shards.
ModelSource open_model(const std::string& config_file, const std::string& weights,
                       const std::vector<std::string>& overrides);

}  // namespace strata::train
