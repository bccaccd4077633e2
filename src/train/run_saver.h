// The saves of a run: on its way, where one that fails is no reason to stop a run that may still end well,
// and the last one, which must succeed.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/json_config.h"
#include "checkpoint/async_saver.h"
#include "train/faults.h"
#include "train/progress.h"
#include "train/trainer.h"

namespace strata::train {

class RunSaver {
 public:
  using Report = std::function<void(const std::string& sentence)>;

  // Refers to trainer, store and faults. `report` gets the sentence of a save that failed on the way, on
  // every rank.
  RunSaver(Trainer& trainer, checkpoint::CheckpointStore& store, const std::vector<ValueOrigin>& origins,
           const Faults& faults, Report report);

  // Every rank makes the same calls.
  void on_the_way(const Progress& progress);
  // Waits for the save under way.
  void settle();
  // Leaves `progress` on the disk, where it is not there yet: `resumed` is the step of the checkpoint that
  // the run began with, unchanged. Throws what AsyncSaver throws.
  void at_the_end(const Progress& progress, std::int64_t resumed);

 private:
  template <class Action>
  void attempt(Action&& action);
  void save(const Progress& progress);

  Trainer& trainer_;
  checkpoint::CheckpointStore& store_;
  const Faults& faults_;
  Report report_;
  std::string config_json_, origins_json_;
  checkpoint::AsyncSaver saver_;
};

}  // namespace strata::train
