// The folder of a run: what it was told, its metrics, its skipped batches; held by one process at a time.
#pragma once
#include <string>
#include <vector>

#include "base/json_config.h"
#include "model/batch.h"
#include "train/config.h"

namespace strata::train {

class RunFolder {
 public:
  // Makes the folder and locks it. InputError if it cannot be written, or another process holds it.
  explicit RunFolder(const RunConfig& config);
  // What the constructor made goes again, unless the run was described.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string config_path() const { return path_ + "/config.json"; }
  std::string metrics_path() const { return metrics_; }
  // A path of the configuration that is relative to the folder.
  std::string inside(const std::string& path) const;
  // The configuration of an earlier start in this folder; empty: there was none.
  std::string earlier_config() const;
  // Writes config.json and origins.json.
  void describe(const RunConfig& config, const std::vector<ValueOrigin>& origins);
  // Writes a batch for `strata trace` to skipped/step_00000012.safetensors; returns the path.
  std::string record_skipped(std::int64_t step, const HostBatch& batch) const;

 private:
  std::string path_, metrics_;
  std::vector<std::string> made_;  // the inner ones last; empty once the run is described
  int lock_ = -1;
};

}  // namespace strata::train
