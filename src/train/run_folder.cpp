#include "train/run_folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace strata::train {
namespace {

namespace fs = std::filesystem;

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw InputError(concat("cannot make the folder ", folder.string(), ": ", error.message()));
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw InputError(concat("cannot write ", path.string(), ": ", std::strerror(errno)));
}

}  // namespace

std::string prepare_folder(const RunConfig& config, const std::vector<ValueOrigin>& origins, bool overwrite) {
  const fs::path folder = config.run.folder();
  const fs::path resolved = folder / "config.json", given = folder / "origins.json";
  const fs::path metrics = folder / config.logging.jsonl;
  for (const fs::path& path : {resolved, given})
    if (metrics.lexically_normal() == path.lexically_normal())
      throw InputError(concat("logging.jsonl is \"", config.logging.jsonl,
                              "\", but the run's folder has a file of ", "that name; choose another"));
  for (const fs::path& path : {metrics, resolved, given})
    if (fs::exists(path) && !overwrite)
      throw InputError(concat(path.string(),
                              " exists already, from an earlier run; choose another run.name or ",
                              "run.output_dir, or replace it with --overwrite"));
  make_folder(folder);
  make_folder(metrics.parent_path());
  write_text(resolved, config_json(config));
  write_text(given, origins_json(origins));
  return metrics.string();
}

}  // namespace strata::train
