#include "checkpoint/summary.h"

#include <filesystem>

#include "base/error.h"
#include "checkpoint/store.h"
#include "checkpoint/weight_set.h"

namespace strata::checkpoint {
namespace {

namespace fs = std::filesystem;

FileSummary summary_of(const std::string& name, const SafetensorsFile& file) {
  FileSummary s;
  s.name = name;
  s.bytes = file.bytes();
  s.tensors = file.tensors();
  s.metadata = file.metadata();
  s.cuts = cuts_of(file);
  for (const auto& [tensor, t] : s.tensors) {
    s.values += t.numel();
    s.values_of_type[t.dtype] += t.numel();
  }
  return s;
}

void add_step(Summary& s) {
  const Opened opened = open_checkpoint(s.path, Check::Sizes);
  s.kind = Summary::Kind::Step;
  s.step = opened.step();
  for (const auto& [name, file] : opened.manifest().files)
    if (name.ends_with(".safetensors"))
      s.files.push_back(summary_of(name, opened.file(name)));
    else
      s.texts[name] = opened.text(name);
}

}  // namespace

bool is_step_folder(const std::string& path) {
  if (!fs::is_directory(path)) return false;
  return fs::exists(fs::path(path) / kManifestName) ||
         step_of(fs::path(path).lexically_normal().filename().string()).has_value();
}

Summary summarize(const std::string& path) {
  Summary s;
  s.path = path;
  if (!fs::exists(path)) throw InputError(concat(path, ": no such file or folder"));
  if (is_step_folder(path)) {
    add_step(s);
    return s;
  }
  if (fs::is_directory(path)) s.steps = list_steps(path);
  if (s.steps.empty() && fs::is_directory(path))
    s.steps = list_steps((fs::path(path) / "checkpoints").string());
  if (!s.steps.empty()) {
    s.kind = Summary::Kind::Root;
    return s;
  }
  const fs::path folder(path);
  if (fs::is_directory(path) && !fs::exists(folder / "model.safetensors") && !fs::exists(folder / kIndexName))
    throw InputError(concat(path, " holds no checkpoint: neither step_... folders, nor ", kManifestName,
                            ", nor model.safetensors"));
  const WeightSet weights(path);
  for (const auto& [name, file] : weights.files()) s.files.push_back(summary_of(name, file));
  return s;
}

}  // namespace strata::checkpoint
