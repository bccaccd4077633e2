// Folders with a model of random weights: config.json and model.safetensors.
#pragma once
#include <filesystem>
#include <string>

#include "base/json_config.h"
#include "base/philox.h"
#include "checkpoint/safetensors.h"
#include "model/stage.h"
#include "support/temp_folder.h"
#include "train/file_shape.h"

namespace strata::test {

// Far from initial values; norms are around one.
inline void write_model(const std::string& folder, const model::ModelConfig& config, double scale = 0.3,
                        const std::string& dtype = "F32") {
  std::filesystem::create_directories(folder);
  write_file(folder + "/config.json", "{\"model\": " + config_json(config) + "}");
  ParameterStore names;
  const model::Stage stage(config, {0, int(config.num_hidden_layers), true, true}, names);
  checkpoint::SafetensorsWriter writer;
  for (const auto& [name, found] : names.by_name()) {
    const Philox random(11, name);
    std::vector<double> values(std::size_t(found.slice.dims.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (name.ends_with("norm.weight") ? 1 : 0) + scale * random.normal(i);
    writer.add(name, dtype, train::shape_of(found.slice.dims), values);
  }
  writer.write(folder + "/model.safetensors");
}

}  // namespace strata::test
