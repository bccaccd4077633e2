// Models as Hugging Face's transformers keeps them: config.json and safetensors files of the architectures
// deepseek_v3 (sigmoid router) and deepseek_v2 (softmax router), which are the vanilla models with MLA.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/named_weights.h"
#include "model/config.h"

namespace strata::checkpoint {

struct HuggingFaceModel {
  model::ModelConfig model;
  // What of config.json is no part of a ModelConfig.
  bool rope_interleave = true;  // rotated pairs are (2i, 2i+1); false: (i, i + dim/2), in the rows of weights
  std::optional<std::int64_t> max_position_embeddings = {};
  std::vector<std::string> notes = {};  // sentences about what was not taken over as it stands
};

// InputError names `source`, the key, its value and what is allowed: for whatever this program does not
// compute, and for keys that it does not know and that are neither null nor false.
HuggingFaceModel read_hugging_face(const std::string& text, const std::string& source);

// The weights of `set` by our names: rotated rows in our order, fused experts one by one. Copies of shared
// matrices, which must be equal, and buffers that are computed anew are left out. Where the prediction module
// that config.json promises is not in the files, `found` is changed to a model without it, with a note.
NamedWeights hugging_face_weights(const WeightSet& set, HuggingFaceModel& found);

struct HuggingFaceText {
  std::string dtype = "float32";
  std::int64_t max_position_embeddings = 4096;
  std::optional<std::int64_t> eos_token_id = {};
};
// config.json of a model. InputError where transformers has no such model: names the key and its value.
std::string hugging_face_config(const model::ModelConfig& model, const HuggingFaceText& more);

// Matrices that files of a model hold a second time, for the prediction module: {copy, original}.
std::vector<std::pair<std::string, std::string>> hugging_face_copies(const model::ModelConfig& model);

}  // namespace strata::checkpoint
