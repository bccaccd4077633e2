#include "train/model_source.h"

#include <filesystem>

#include "base/json_config.h"
#include "base/json_value.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/store.h"
#include "checkpoint/summary.h"
#include "checkpoint/weight_set.h"

namespace strata::train {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kConfig = "config.json";

// With a manifest: a checkpoint, which has the state of a run beside the weights, or an export.
ModelSource open_step(const std::string& folder, const Words& overrides) {
  const checkpoint::Opened opened = checkpoint::open_checkpoint(folder);
  ModelSource s;
  s.kind = opened.has("state.json") ? SourceKind::Checkpoint : SourceKind::Export;
  s.folder = folder;
  s.step = opened.step();
  load_config_text(s.config, opened.text(kConfig), folder + "/" + kConfig, overrides);
  s.weights = checkpoint::named_weights(checkpoint::WeightSet(opened.weights_path()));
  return s;
}

ModelSource open_hugging_face(const std::string& folder, const std::string& text, const Words& overrides) {
  const std::string source = folder + "/" + kConfig;
  checkpoint::HuggingFaceModel found = checkpoint::read_hugging_face(text, source);
  const checkpoint::WeightSet set(folder);
  ModelSource s;
  s.kind = SourceKind::HuggingFace;
  s.folder = folder;
  s.weights = checkpoint::hugging_face_weights(set, found);
  RunConfig as_found;
  as_found.model = found.model;
  as_found.training.seq_length = found.max_position_embeddings.value_or(as_found.training.seq_length);
  load_config_text(s.config, config_json(as_found), source, overrides);
  s.notes = found.notes;
  return s;
}

ModelSource open_plain(const std::string& folder, const Words& overrides) {
  const std::string source = folder + "/" + kConfig;
  const std::string text = detail::read_text_file(source);
  const JsonValue root = parse_json(text, source, Origin::File);
  if (!root.find("model")) return open_hugging_face(folder, text, overrides);
  ModelSource s;
  s.kind = SourceKind::Export;
  s.folder = folder;
  load_config_text(s.config, text, source, overrides);
  s.weights = checkpoint::named_weights(checkpoint::WeightSet(folder));
  return s;
}

}  // namespace

std::string ModelSource::text() const {
  return concat(folder, " (", name_of(kind), kind == SourceKind::HuggingFace ? "" : concat(", step ", step),
                ")");
}

ModelSource open_model(const std::string& path, const Words& overrides) {
  if (!fs::exists(path)) throw InputError(concat(path, ": no such folder"));
  if (!fs::is_directory(path))
    throw InputError(concat(path, " is no folder; the folder of a model is needed"));
  if (checkpoint::is_step_folder(path)) return open_step(path, overrides);
  std::vector<checkpoint::Entry> steps = checkpoint::list_steps(path);
  if (steps.empty()) steps = checkpoint::list_steps((fs::path(path) / "checkpoints").string());
  if (!steps.empty()) return open_step(steps.back().folder, overrides);
  if (fs::exists(fs::path(path) / kConfig)) return open_plain(path, overrides);
  throw InputError(
      concat(path, " holds no model: neither step_... folders, nor manifest.json, nor ", kConfig));
}

ModelSource open_model(const std::string& config_file, const std::string& weights, const Words& overrides) {
  ModelSource source;
  load_config(source.config, config_file, overrides);
  source.weights = checkpoint::named_weights(checkpoint::WeightSet(weights));
  return source;
}

}  // namespace strata::train
