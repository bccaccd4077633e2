// A model in another form: with other residual connections that compute the same, as Hugging Face keeps it,
// or as this program does, in a folder of its own.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json_config.h"
#include "checkpoint/disk.h"
#include "train/model_source.h"

namespace strata::train {

enum class ModelFormat { Strata, HuggingFace };
constexpr auto enum_names(ModelFormat) { return std::array<std::string_view, 2>{"strata", "huggingface"}; }

// At rms_norm_eps kLimitEps the logits of a converted model may differ by this much of the largest.
constexpr double kLimitEps = 1e-20, kAllowedDifference = 1e-9;

struct ConvertOptions {
  std::string from, to;  // folders; see open_model
  ModelFormat format = ModelFormat::Strata;
  std::vector<std::string> overrides;  // "model.residual.streams=2", and of keys that change no logit
  bool bfloat16 = false;               // all but router biases, in the format of Hugging Face
  double max_shard_bytes = 5e9;        // likewise
  bool overwrite = false;
  checkpoint::SaveFaults faults = {};
};

struct Conversion {
  ModelSource source;
  RunConfig config;  // of the result
  std::vector<ValueOrigin> origins;
  DType dtype = DType::Float32;
  std::int64_t weights = 0, router_biases = 0, bytes = 0;  // router biases: of the weights
  // Largest differences of logits, as parts of the largest logit, in float64: at the model's own
  // rms_norm_eps, and, with other residual connections, at kLimitEps.
  double difference = 0;
  std::optional<double> limit_difference;
};

// Writes the folder `to`: config.json, the weights and, in this program's format, a manifest. Other residual
// connections are given to a vanilla model only, with weights that make it compute the same as rms_norm_eps
// -> 0. Before the folder appears, what was written is read back and both models are run. Throws, and leaves
// everything as it was: InputError for what cannot be done, Error where logits differ that should not.
Conversion convert(const ConvertOptions& options);

}  // namespace strata::train
