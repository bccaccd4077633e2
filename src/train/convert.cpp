#include "train/convert.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/config_changes.h"
#include "base/json_config.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/steps.h"
#include "checkpoint/summary.h"
#include "data/tokenizer.h"
#include "train/converted_weights.h"
#include "train/logit_check.h"

namespace strata::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Keys of the result that the command line may set: no logit depends on them, or a residual module takes care
// that none does.
constexpr const char* kMayChange[] = {"model.residual.",          "model.seq_aux_loss_coef",
                                      "model.router_z_loss_coef", "model.mtp_loss_coef",
                                      "model.initializer_range",  "run.seed",
                                      "training.seq_length",      "data.tokenizer"};

bool is_residual(const std::string& path) { return path.starts_with("model.residual."); }

void check_changes(const ModelSource& source, const RunConfig& target) {
  for (const ConfigChange& c :
       config_changes(config_json(source.config), source.folder, config_json(target))) {
    if (std::none_of(std::begin(kMayChange), std::end(kMayChange),
                     [&](const char* prefix) { return c.path.starts_with(prefix); }))
      throw InputError(concat("command line: ", c.path, " ", c.before, " -> ", c.after,
                              ": a conversion may change model.residual and what no logit depends on: "
                              "model.seq_aux_loss_coef, model.router_z_loss_coef, model.mtp_loss_coef, "
                              "model.initializer_range, run.seed, training.seq_length and data.tokenizer"));
    if (is_residual(c.path) && source.config.model.residual.type != residual::Type::Vanilla)
      throw InputError(concat("command line: ", c.path, " ", c.before, " -> ", c.after, ": ", source.folder,
                              " is a ", name_of(source.config.model.residual.type),
                              " model, and only a vanilla one can be given other residual connections"));
  }
}

// "out", for "out/" too.
std::string plain_path(const std::string& path) {
  fs::path p = fs::path(path).lexically_normal();
  if (!p.has_filename()) p = p.parent_path();
  if (path.empty() || !p.has_filename() || p.filename().string().starts_with("."))
    throw InputError(concat("--to: \"", path, "\" is no folder's name"));
  return p.string();
}

// What convert writes; anything else in a folder was put there by somebody.
bool is_own_file(const std::string& name) {
  return name == "config.json" || name == "manifest.json" || name == "model.safetensors.index.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

// Before anything beside it is touched.
void check_place(const std::string& to) {
  const fs::path target = fs::absolute(to), parent = target.parent_path();
  if (!fs::is_directory(parent)) throw InputError(concat("--to: no folder ", parent.string()));
  for (fs::path p = parent; p != p.parent_path(); p = p.parent_path())
    if (checkpoint::is_step_folder(p.string()) || !checkpoint::list_steps(p.string()).empty())
      throw InputError(concat("--to: ", to, " lies among the checkpoints of ", p.string()));
  if (fs::is_symlink(target))
    throw InputError(concat("--to: ", to, " is a symbolic link; the folder itself is needed"));
}

void check_output(const std::string& to, const ModelSource& source, bool overwrite) {
  const fs::path target(to);
  if (!fs::exists(target)) return;
  if (!overwrite) throw InputError(concat("--to: ", to, " is there already; --overwrite replaces it"));
  if (fs::equivalent(target, source.folder)) throw InputError(concat("--to: ", to, " is what is converted"));
  if (!fs::is_directory(target) || !fs::exists(target / "config.json"))
    throw InputError(concat("--to: ", to, " is no folder of a converted model, and is not overwritten"));
  for (const fs::directory_entry& entry : fs::directory_iterator(target))
    if (!is_own_file(entry.path().filename().string()))
      throw InputError(concat("--to: ", to, " is not overwritten: ", entry.path().filename().string(),
                              " in it is not of a converted model"));
}

// Of the resolved configuration what belongs to the model rather than to a run, and what its text was to it;
// the batch size, too, in which `eval` counts.
std::string export_config(const RunConfig& config) {
  const Json all = Json::parse(config_json(config));
  Json j{{"model_type", all.at("model_type")}, {"model", all.at("model")}};
  for (const char* key : {"seq_length", "micro_batch_size", "global_batch_size"})
    if (!all.at("training").at(key).is_null()) j["training"][key] = all.at("training").at(key);
  j["data"] = Json::object();
  for (const char* key : {"tokenizer", "reset_attention_mask", "eod_mask_loss"})
    if (all.at("data").contains(key) && !all.at("data").at(key).is_null())
      j["data"][key] = all.at("data").at(key);
  return j.dump(2) + "\n";
}

std::string foreign_config(const RunConfig& config, DType dtype) {
  checkpoint::HuggingFaceText more;
  more.dtype = name_of(dtype);
  more.max_position_embeddings = config.training.seq_length;
  if (config.data.tokenizer)
    more.eos_token_id = data::make_tokenizer(*config.data.tokenizer)->end_of_document();
  return checkpoint::hugging_face_config(config.model, more);
}

void write_foreign(checkpoint::StagedFolder& folder, const std::vector<checkpoint::TensorSource>& tensors,
                   double max_shard_bytes) {
  const std::vector<Shard> shards = make_shards(tensors, max_shard_bytes);
  for (const Shard& s : shards)
    folder.add(s.name, checkpoint::SafetensorsStream(s.tensors, {{"format", "pt"}}));
  if (shards.size() > 1) folder.add("model.safetensors.index.json", shard_index(shards));
}

// Runs both models.
void compare(Conversion& c, const ModelSource& result, bool is_exact) {
  const auto difference = [&](double eps) {
    model::ModelConfig before = c.source.config.model, after = result.config.model;
    before.rms_norm_eps = after.rms_norm_eps = eps;
    return largest_difference(sample_logits(after, result.weights), sample_logits(before, c.source.weights));
  };
  c.difference = difference(c.config.model.rms_norm_eps);
  const bool is_other = c.config.model.residual.type != c.source.config.model.residual.type;
  if (is_other) c.limit_difference = difference(kLimitEps);
  const double judged = c.limit_difference.value_or(c.difference);
  if (is_exact && !(judged <= kAllowedDifference))
    throw Error(concat("nothing is written: the logits differ from those of ", c.source.folder, " by ",
                       judged, " of the largest", is_other ? concat(" at rms_norm_eps ", kLimitEps) : "",
                       ", allowed is ", kAllowedDifference));
}

void clear_leftovers(checkpoint::Disk& disk, const std::string& to) {
  const fs::path target = fs::absolute(to);
  for (const checkpoint::Leftover& l : checkpoint::find_leftovers(target.parent_path().string()))
    if (l.name == target.filename().string()) checkpoint::clear_leftover(disk, l);
}

}  // namespace

Conversion convert(const ConvertOptions& o) {
  const std::string to = plain_path(o.to);
  checkpoint::Disk disk(o.faults);
  Conversion c;
  c.source = open_model(o.from);
  c.origins = load_config_text(c.config, config_json(c.source.config), c.source.folder, o.overrides);
  check_changes(c.source, c.config);
  check_place(to);
  clear_leftovers(disk, to);  // a killed one may have left the folder that it was to replace
  check_output(to, c.source, o.overwrite);
  const bool is_foreign = o.format == ModelFormat::HuggingFace, is_wide = holds_float64(c.source.weights);
  c.dtype = o.bfloat16 ? DType::BFloat16 : is_wide && !is_foreign ? DType::Float64 : DType::Float32;
  const std::string config = is_foreign ? foreign_config(c.config, c.dtype) : export_config(c.config);
  std::vector<checkpoint::HostTensor> tensors = converted_weights(c.source, c.config, c.dtype);
  const std::string parent = fs::absolute(to).parent_path().string();
  if (const std::string lack = checkpoint::lacks_room(disk, parent, bytes_of(tensors)); !lack.empty())
    throw Error(concat("cannot write ", to, ": ", lack));
  for (const checkpoint::HostTensor& t : tensors) {
    c.weights += t.dims.numel();
    c.router_biases += is_router_bias(t.name) ? t.dims.numel() : 0;
  }

  checkpoint::StagedFolder folder(disk, to);
  folder.add("config.json", config);
  if (is_foreign)
    write_foreign(folder, with_copies(tensors, c.config.model), o.max_shard_bytes);
  else
    folder.add("model.safetensors", checkpoint::SafetensorsStream(sources_of(tensors), {{"format", "pt"}}));
  if (!is_foreign) folder.add_manifest(c.source.step);
  c.bytes = folder.bytes();
  tensors = {};
  compare(c, open_model(folder.path()), !o.bfloat16 && (!is_wide || c.dtype == DType::Float64));
  folder.put_in_place();
  folder.remove_replaced();
  return c;
}

}  // namespace strata::train
