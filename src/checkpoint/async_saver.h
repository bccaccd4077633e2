// Saves in the background, one at a time, while training goes on with memory of its own. Of several ranks
// each has one of these and writes its part; they make the same calls in the same order, and learn the same.
#pragma once
#include <atomic>
#include <future>
#include <string>

#include "base/error.h"
#include "checkpoint/store.h"
#include "comm/communicator.h"

namespace strata::checkpoint {

// A save did not come about; nothing else is wrong. Of ranks that save together all throw it.
class SaveFailed : public Error {
 public:
  using Error::Error;
};

class AsyncSaver {
 public:
  // Not `in_background`: save() does it all before it returns. The store must outlive the saver, and is not
  // to be used otherwise until finish(). `ranks`: all that save together, the first of them in place of a
  // single one; null: alone. They talk inside save() and finish() only, on the thread that calls these.
  explicit AsyncSaver(CheckpointStore& store, bool in_background = true, comm::Communicator* ranks = nullptr)
      : store_(store), in_background_(in_background), ranks_(ranks && ranks->size() > 1 ? ranks : nullptr) {}
  // Waits. An error that nobody asked for is lost: call finish() first.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;

  // Waits for the save before and throws SaveFailed if it failed; then this snapshot is not saved. So, too,
  // where the save cannot begin, but for the store's InputError.
  void save(Snapshot&& snapshot);
  // Waits for the last save and throws SaveFailed if it failed: on every rank, whosever the failure is.
  void finish();
  // The newest step that is on the disk whole, of those saved here; -1: none yet. With several ranks, as of
  // finish().
  std::int64_t durable_step() const { return durable_step_; }

 private:
  void save_alone(Snapshot&& snapshot);
  void save_part(Snapshot&& snapshot);
  void agree();

  CheckpointStore& store_;
  bool in_background_;
  comm::Communicator* ranks_;
  std::int64_t step_ = -1;                   // under way
  std::future<void> pending_;                // this rank's work
  std::shared_future<std::string> written_;  // of several: what hindered this rank's part; empty: it is there
  std::atomic<bool> given_up_{false};
  std::atomic<std::int64_t> durable_step_{-1};
};

}  // namespace strata::checkpoint
