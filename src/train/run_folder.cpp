#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/store.h"
#include "train/batch_file.h"

namespace strata::train {
namespace {

namespace fs = std::filesystem;

// Those of the path that are not there, the inner ones last.
std::vector<std::string> missing_folders(fs::path path) {
  std::vector<std::string> missing;
  for (std::error_code error; !path.empty() && !fs::exists(path, error); path = path.parent_path())
    missing.insert(missing.begin(), path.string());
  return missing;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw InputError(
        concat("run.output_dir: cannot make the folder ", folder.string(), ": ", error.message()));
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw InputError(concat("cannot write ", path.string(), ": ", std::strerror(errno)));
}

int lock(const fs::path& folder) {
  const std::string path = (folder / "lock").string();
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw InputError(concat("cannot write ", path, ": ", std::strerror(errno)));
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  close(descriptor);
  throw InputError(concat(folder.string(), " is in use by another run that has not ended; choose another ",
                          "run.name or run.output_dir, or stop that run"));
}

}  // namespace

RunFolder::RunFolder(const RunConfig& config)
    : path_(config.run.folder()), metrics_((fs::path(path_) / config.logging.jsonl).string()) {
  for (const char* taken : {"config.json", "origins.json", "lock", "stop"})
    if (fs::path(metrics_).lexically_normal() == (fs::path(path_) / taken).lexically_normal())
      throw InputError(concat("logging.jsonl is \"", config.logging.jsonl,
                              "\", but the run's folder has a file of that name; choose another"));
  made_ = missing_folders(fs::path(metrics_).parent_path());
  if (std::error_code error; !fs::exists(path_ + "/lock", error)) made_.push_back(path_ + "/lock");
  make_folder(path_);
  make_folder(fs::path(metrics_).parent_path());
  lock_ = lock(path_);
}

RunFolder::~RunFolder() {
  std::error_code stays;  // a folder with anything else in it
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) fs::remove(*made, stays);
  close(lock_);
}

std::string RunFolder::inside(const std::string& path) const { return (fs::path(path_) / path).string(); }

std::string RunFolder::earlier_config() const {
  std::ifstream file(config_path());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void RunFolder::describe(const RunConfig& config, const std::vector<ValueOrigin>& origins) {
  made_.clear();
  write_text(config_path(), config_json(config));
  write_text(path_ + "/origins.json", origins_json(origins));
}

std::string RunFolder::record_skipped(std::int64_t step, const HostBatch& batch) const {
  const std::string folder = path_ + "/skipped";
  make_folder(folder);
  const std::string path = concat(folder, "/", checkpoint::step_name(step), ".safetensors");
  save_batch(path, batch);
  return path;
}

}  // namespace strata::train
