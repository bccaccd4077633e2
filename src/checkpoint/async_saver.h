// Saves in the background, one at a time, while training goes on with memory of its own.
#pragma once
#include <atomic>
#include <future>

#include "checkpoint/store.h"

namespace strata::checkpoint {

class AsyncSaver {
 public:
  // Not `in_background`: save() does it all before it returns. The store must outlive the saver, and is not
  // to be used otherwise until finish().
  explicit AsyncSaver(CheckpointStore& store, bool in_background = true)
      : store_(store), in_background_(in_background) {}
  // Waits. An error that nobody asked for is lost: call finish() first.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;

  // Waits for the save before and throws its error; then this snapshot is not saved.
  void save(Snapshot&& snapshot);
  // Waits for the last save and throws its error.
  void finish();
  // The newest step that is on the disk whole, of those saved here; -1: none yet.
  std::int64_t durable_step() const { return durable_step_; }

 private:
  CheckpointStore& store_;
  bool in_background_;
  std::future<void> pending_;
  std::atomic<std::int64_t> durable_step_{-1};
};

}  // namespace strata::checkpoint
