// A training run as a configuration file describes it.
#include <algorithm>

#include "base/json_config.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "train/run.h"
#include "train/stop.h"

namespace strata::tools {
namespace {

// Who gave the value whose path a sentence begins with.
std::string source_of(const std::string& sentence, const std::string& file,
                      const std::vector<ValueOrigin>& origins) {
  const ValueOrigin told{sentence.substr(0, sentence.find(' ')), Origin::CommandLine};
  return std::find(origins.begin(), origins.end(), told) == origins.end() ? file : "command line";
}

}  // namespace

int train(const TrainArguments& a) {
  train::parse_faults(a.inject);
  train::RunConfig config;
  const auto origins = load_config(config, a.config.file, a.config.overrides);
  try {
    train::check_trainable(config);
  } catch (const InputError& e) {
    throw InputError(concat(source_of(e.what(), a.config.file, origins), ": ", e.what()));
  }
  const train::StopSignals signals;
  std::string command =
      concat("train", a.overwrite ? " --overwrite" : "", a.override_changes ? " --override" : "");
  for (const std::string& fault : a.inject) command += " --inject " + fault;
  return launch(command, config, [&](const comm::Mesh& mesh) {
    train::run(config, origins,
               {.overwrite = a.overwrite,
                .allow_changes = a.override_changes,
                .faults = train::parse_faults(a.inject, mesh.world().rank()),
                .last_resort = watching(config).last},
               mesh);
    return 0;
  });
}

}  // namespace strata::tools
