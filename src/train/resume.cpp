#include "train/resume.h"

#include <algorithm>
#include <filesystem>

#include "base/config_changes.h"
#include "base/json_config.h"
#include "train/progress.h"

namespace strata::train {
namespace {

// What changes no number of the run. Training data are judged by their fingerprint, which their weights are
// in.
bool is_free(const std::string& path) {
  constexpr const char* kFree[] = {"run.name",        "run.output_dir", "training.eval_", "data.train",
                                   "data.validation", "data.tokenizer", "recompute.",     "backend.",
                                   "checkpoint.",     "resilience.",    "logging.",       "model_type",
                                   "profile.",        "optimizer.use_", "parallel."};
  return std::any_of(std::begin(kFree), std::end(kFree),
                     [&](const char* prefix) { return path.starts_with(prefix); });
}

bool holds_damaged(const std::string& root) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(root, none))
    if (entry.path().filename().string().find(".damaged") != std::string::npos) return true;
  return false;
}

std::string listed(const std::vector<ConfigChange>& changes) {
  std::string text;
  for (const ConfigChange& c : changes)
    text += concat(text.empty() ? "" : ", ", c.path, " ", c.before, " -> ", c.after);
  return text;
}

std::vector<ConfigChange> hyper_parameter_changes(const RunConfig& config, const std::string& earlier,
                                                  const std::string& source) {
  std::vector<ConfigChange> changes = config_changes(earlier, source, config_json(config));
  std::erase_if(changes, [](const ConfigChange& c) { return is_free(c.path); });
  return changes;
}

// "4 x 32 tokens".
std::string step_text(const TrainingSection& t) {
  return concat(t.batch_size(), " x ", t.seq_length, " tokens");
}

// Limits that are planned from a run's beginning, with one number of tokens a step.
void check_limits(const RunConfig& config, const std::string& earlier, const std::string& source) {
  RunConfig was;
  load_config_text(was, earlier, source);
  const std::string before = step_text(was.training), now = step_text(config.training);
  if (before == now) return;
  const auto refuse = [&](const std::string& limit, const std::string& instead) {
    throw InputError(concat(source, " was made in steps of ", before, ", now they are ", now, ": ", limit,
                            " is planned from the beginning of a run with steps of one size; ", instead));
  };
  if (config.training.train_tokens) refuse("training.train_tokens", "say training.train_iters instead");
  for (const data::TrainSource& s : config.data.train)
    if (s.max_epochs) refuse("max_epochs of data.train \"" + s.path + "\"", "leave it out");
}

}  // namespace

std::optional<checkpoint::Opened> find_start(const RunConfig& config, const std::string& data_fingerprint,
                                             const RunFolder& folder, checkpoint::CheckpointStore& store,
                                             bool allow_changes,
                                             const std::function<void(const std::string&)>& report) {
  using checkpoint::Check;
  const Check check = config.checkpoint.verify_integrity ? Check::Checksums : Check::Sizes;
  std::optional<checkpoint::Opened> opened = store.newest_sound(report, check);
  if (!opened && holds_damaged(store.root()))
    throw InputError(concat(store.root(), " has no sound checkpoint left; put one back, or start anew by ",
                            "--overwrite"));
  const std::string source = opened ? opened->folder() + "/config.json" : folder.config_path();
  const std::string earlier = opened ? opened->text("config.json") : folder.earlier_config();
  if (earlier.empty()) return std::nullopt;
  std::vector<ConfigChange> changes = hyper_parameter_changes(config, earlier, source);
  if (opened) {
    const std::string state = opened->folder() + "/state.json";
    const Progress progress = parse_progress(opened->text("state.json"), state);
    if (progress.data != data_fingerprint)
      changes.push_back({"fingerprint of the training data", progress.data, data_fingerprint});
  }
  if (changes.empty()) return opened;
  if (!allow_changes)
    throw InputError(concat(source, " differs from this configuration: ", listed(changes),
                            "; change it back, go on with the new values by --override, or start anew by ",
                            "--overwrite"));
  if (opened) check_limits(config, earlier, source);
  report(concat("changed since ", source, ": ", listed(changes)));
  return opened;
}

}  // namespace strata::train
