#include "checkpoint/async_saver.h"

namespace strata::checkpoint {

AsyncSaver::~AsyncSaver() {
  if (pending_.valid()) pending_.wait();
}

void AsyncSaver::save(Snapshot&& snapshot) {
  finish();
  auto work = [this, given = std::move(snapshot)]() mutable {
    const Snapshot snapshot = std::move(given);  // its memory ends with the save, not with the future
    store_.save(snapshot);
    durable_step_ = snapshot.step;
  };
  if (in_background_)
    pending_ = std::async(std::launch::async, std::move(work));
  else
    work();
}

void AsyncSaver::finish() {
  if (pending_.valid()) pending_.get();
}

}  // namespace strata::checkpoint
