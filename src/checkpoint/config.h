// The section of the configuration that the saving of checkpoints reads.
#pragma once
#include "base/fields.h"

namespace strata::checkpoint {

// Which checkpoints outlive the next save: the newest most_recent_k (0: all) and, besides, every multiple of
// retain_interval (0: none).
struct KeepPolicy {
  std::int64_t most_recent_k = 0;
  std::int64_t retain_interval = 0;

  bool operator==(const KeepPolicy&) const = default;
};

struct CheckpointSection {
  std::optional<std::string> save = {};  // folder of the checkpoints; unset: checkpoints in the run's folder
  std::optional<std::string> load = {};  // folder of a model to start from; unset: random weights
  std::int64_t save_interval = 0;        // steps; 0: only after the last
  std::int64_t most_recent_k = 3;        // 0: all
  std::optional<std::int64_t> save_retain_interval = {};
  bool async_save = true;
  bool verify_integrity = true;

  std::string folder(const std::string& run_folder) const {
    return save.value_or(run_folder + "/checkpoints");
  }
  KeepPolicy keep() const { return {most_recent_k, save_retain_interval.value_or(0)}; }
  void fields(FieldVisitor& v);
  void validate() const;
  bool operator==(const CheckpointSection&) const = default;
};

}  // namespace strata::checkpoint
