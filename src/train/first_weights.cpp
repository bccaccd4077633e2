#include "train/first_weights.h"

#include <filesystem>

#include "base/config_changes.h"
#include "base/json_config.h"
#include "train/weights.h"

namespace strata::train {
namespace {

ModelSource open_loaded(const std::string& path) {
  try {
    return open_model(path);
  } catch (const InputError& e) {
    throw InputError(concat("checkpoint.load: ", e.what()));
  }
}

// What --overwrite removes cannot be started from: until the first save there would be no copy of it.
void check_kept(const ModelSource& source, const checkpoint::CheckpointStore& store) {
  for (const checkpoint::Entry& e : store.list())
    if (std::filesystem::equivalent(e.folder, source.folder))
      throw InputError(concat("checkpoint.load: ", source.folder, " is of the run that --overwrite removes; ",
                              "choose another run.name or run.output_dir, or copy it elsewhere"));
}

// Weights that do not fit because they are of another residual connection, in the words of the
// configurations.
void check_residual(Trainer& trainer, const ModelSource& source) {
  const residual::Type is = source.config.model.residual.type, wanted = trainer.config().model.residual.type;
  if (is == wanted) return;
  try {
    check_weights(trainer.store(), source.weights);
  } catch (const InputError&) {
    throw InputError(
        concat("checkpoint.load: ", source.weights.path, ": these weights are of a model with residual ",
               "connection ", name_of(is), " (config.json beside them), this one has ", name_of(wanted),
               is == residual::Type::Vanilla ? "; strata checkpoint convert --residual changes it"
                                             : "; only those of a vanilla model can be converted"));
  }
}

}  // namespace

std::optional<ModelSource> open_first_weights(const RunConfig& config,
                                              const checkpoint::CheckpointStore& store, bool overwrite) {
  if (!config.checkpoint.load) return std::nullopt;
  ModelSource source = open_loaded(*config.checkpoint.load);
  if (overwrite) check_kept(source, store);
  return source;
}

void load_first_weights(Trainer& trainer, const ModelSource& source,
                        const std::function<void(const std::string&)>& say) {
  const RunConfig& config = trainer.config();
  check_residual(trainer, source);
  load_weights(trainer.store(), source.weights, config.model);
  say(concat("starts with the weights of ", source.text()));
  for (const ConfigChange& c : config_changes(config_json(source.config), source.folder, config_json(config)))
    if (c.path.starts_with("model."))
      say(concat("  ", c.path, " was ", c.before, " there and is ", c.after, " here"));
}

}  // namespace strata::train
