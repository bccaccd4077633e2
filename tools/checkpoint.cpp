// What is in a checkpoint, and whether it is whole.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/field_text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/summary.h"
#include "tools/commands.h"

namespace strata::tools {
namespace {

using checkpoint::Entry;
using checkpoint::FileSummary;
using checkpoint::Summary;
using Json = nlohmann::ordered_json;

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> extents;
  for (const std::int64_t e : shape) extents.push_back(std::to_string(e));
  return "[" + join(extents, ", ") + "]";
}

// The keys of a resolved configuration that tell models apart, as "key value" each; none that is missing.
std::vector<std::string> traits(const Summary& s) {
  const auto text = s.texts.find("config.json");
  if (text == s.texts.end()) return {};
  const Json config = Json::parse(text->second, nullptr, false);
  std::vector<std::string> found;
  constexpr std::pair<const char*, const char*> kTraits[] = {
      {"run", "/run/name"},
      {"hidden_size", "/model/hidden_size"},
      {"num_hidden_layers", "/model/num_hidden_layers"},
      {"vocab_size", "/model/vocab_size"},
      {"n_routed_experts", "/model/n_routed_experts"},
      {"residual", "/model/residual/type"},
      {"optimizer", "/optimizer/type"},
      {"compute", "/precision/compute"}};
  for (const auto& [label, path] : kTraits) {
    const Json::json_pointer at(path);
    if (config.is_discarded() || !config.contains(at) || config[at].is_structured()) continue;
    found.push_back(
        concat(label, " ", config[at].is_string() ? config[at].get<std::string>() : config[at].dump()));
  }
  return found;
}

std::int64_t folder_bytes(const std::string& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file()) bytes += std::int64_t(entry.file_size());
  return bytes;
}

void print_file(const FileSummary& f) {
  std::vector<std::string> types;
  for (const auto& [type, values] : f.values_of_type) types.push_back(concat(values, " ", type));
  std::int64_t biases = 0;
  for (const auto& [name, t] : f.tensors)
    biases += name.ends_with(".e_score_correction_bias") ? t.numel() : 0;
  const std::string of_them = biases > 0 ? concat(", of them ", biases, " router biases") : "";
  std::printf("\n%s: %zu tensors, %lld values (%s)%s, %lld bytes\n", f.name.c_str(), f.tensors.size(),
              (long long)f.values, types.empty() ? "none" : join(types, ", ").c_str(), of_them.c_str(),
              (long long)f.bytes);
  for (const auto& [name, t] : f.tensors) {
    const auto cut = f.cuts.find(name);
    const std::string of_whole =
        cut == f.cuts.end() ? "" : concat(" from ", cut->second.offset, " of ", text_of(cut->second.shape));
    std::printf("  %-4s %-20s %s\n", t.dtype.c_str(), (text_of(t.shape) + of_whole).c_str(), name.c_str());
  }
}

// What the files of several ranks, named alike, hold together.
void print_together(const Summary& s, const std::string& what) {
  std::size_t files = 0;
  long long values = 0, bytes = 0;
  for (const FileSummary& f : s.files)
    if (f.name.starts_with(what + "-")) ++files, values += f.values, bytes += f.bytes;
  if (files > 1) std::printf("%s: %zu files, %lld values, %lld bytes\n", what.c_str(), files, values, bytes);
}

void print_text(const Summary& s) {
  if (s.kind == Summary::Kind::Root) {
    std::printf("%s: %zu checkpoint%s\n  %12s  %16s        folder\n", s.path.c_str(), s.steps.size(),
                s.steps.size() == 1 ? "" : "s", "step", "size");
    for (const Entry& e : s.steps)
      std::printf("  %12lld  %16lld bytes  %s\n", (long long)e.step, (long long)folder_bytes(e.folder),
                  e.folder.c_str());
    return;
  }
  if (s.step) std::printf("%s: step %lld\n", s.path.c_str(), (long long)*s.step);
  const std::vector<std::string> words = traits(s);
  if (!words.empty()) std::printf("%s\n", join(words, ", ").c_str());
  for (const auto& [name, text] : s.texts) std::printf("%s: %zu bytes\n", name.c_str(), text.size());
  for (const char* what : {"model", "optimizer"}) print_together(s, what);
  for (const FileSummary& f : s.files) print_file(f);
}

Json json_of(const FileSummary& f) {
  Json j{{"bytes", f.bytes}, {"values", f.values}, {"types", f.values_of_type}, {"metadata", f.metadata}};
  j["tensors"] = Json::object();
  for (const auto& [name, t] : f.tensors) j["tensors"][name] = {{"dtype", t.dtype}, {"shape", t.shape}};
  for (const auto& [name, cut] : f.cuts)
    j["tensors"][name]["piece"] = {{"offset", cut.offset}, {"of", cut.shape}};
  return j;
}

void print_json(const Summary& s) {
  constexpr const char* kKinds[] = {"checkpoint", "checkpoints", "weights"};
  Json j{{"path", s.path}, {"kind", kKinds[int(s.kind)]}};
  if (s.step) j["step"] = *s.step;
  for (const Entry& e : s.steps)
    j["steps"].push_back({{"step", e.step}, {"folder", e.folder}, {"bytes", folder_bytes(e.folder)}});
  for (const FileSummary& f : s.files) j["files"][f.name] = json_of(f);
  for (const auto& [name, text] : s.texts) {
    const Json parsed = Json::parse(text, nullptr, false);
    j["texts"][name] = parsed.is_discarded() ? Json(text) : parsed;
  }
  std::printf("%s\n", j.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

// Prints the faults of one checkpoint; whether there is none.
bool report(const std::string& folder) {
  const checkpoint::Verification v = checkpoint::verify(folder);
  for (const std::string& remark : v.remarks) std::printf("%s: note: %s\n", folder.c_str(), remark.c_str());
  for (const std::string& fault : v.faults) std::printf("%s: damaged: %s\n", folder.c_str(), fault.c_str());
  if (v.sound())
    std::printf("%s: sound, step %lld, %zu files\n", folder.c_str(), (long long)v.manifest.step,
                v.manifest.files.size());
  return v.sound();
}

}  // namespace

int inspect_checkpoint(const CheckpointArguments& a) {
  const Summary s = checkpoint::summarize(a.path);
  if (a.json)
    print_json(s);
  else
    print_text(s);
  return 0;
}

int verify_checkpoint(const CheckpointArguments& a) {
  if (checkpoint::is_step_folder(a.path)) return report(a.path) ? 0 : 1;
  const Summary s = checkpoint::summarize(a.path);
  bool is_sound = true;
  for (const Entry& e : s.steps) is_sound &= report(e.folder);
  for (const FileSummary& f : s.files)
    std::printf("%s: well-formed; outside of a checkpoint it has no checksum\n", f.name.c_str());
  return is_sound ? 0 : 1;
}

}  // namespace strata::tools
