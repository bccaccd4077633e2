// A training run as a configuration file describes it.
#include "base/json_config.h"
#include "tools/commands.h"
#include "train/run.h"

namespace strata::tools {

int train(const TrainArguments& a) {
  const train::RunOptions options{
      .overwrite = a.overwrite, .allow_changes = a.override_changes, .faults = train::parse_faults(a.inject)};
  train::RunConfig config;
  const auto origins = load_config(config, a.config.file, a.config.overrides);
  try {
    train::check_trainable(config);
  } catch (const InputError& e) {
    throw InputError(concat(a.config.file, ": ", e.what()));
  }
  train::run(config, origins, options);
  return 0;
}

}  // namespace strata::tools
