#include "checkpoint/async_saver.h"

#include <functional>

#include "comm/on_first.h"

namespace strata::checkpoint {
namespace {

// Of what each rank says, empty where all is well.
std::string first_fault(const std::vector<std::string>& said) {
  std::string fault;
  int others = -1;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank].empty()) continue;
    if (++others == 0) fault = concat("rank ", rank, ": ", said[rank]);
  }
  return others > 0 ? concat(fault, " (and ", others, " more)") : fault;
}

// What `action` gives on the first rank. Where it throws an Error there, all throw SaveFailed, or its
// InputError.
std::string begun_on_first(comm::Communicator& ranks, const std::function<std::string()>& action) {
  constexpr char kDone = '+', kFailed = '-';
  const std::string told = comm::on_first(ranks, [&] {
    try {
      return kDone + action();
    } catch (const InputError&) {
      throw;
    } catch (const Error& e) {
      return kFailed + std::string(e.what());
    }
  });
  if (told[0] == kFailed) throw SaveFailed(told.substr(1));
  return told.substr(1);
}

}  // namespace

AsyncSaver::~AsyncSaver() {
  if (pending_.valid()) pending_.wait();
}

void AsyncSaver::save(Snapshot&& snapshot) {
  finish();
  if (ranks_)
    save_part(std::move(snapshot));
  else
    save_alone(std::move(snapshot));
}

void AsyncSaver::save_alone(Snapshot&& snapshot) {
  auto work = [this, given = std::move(snapshot)]() mutable {
    const Snapshot snapshot = std::move(given);  // its memory ends with the save, not with the future
    try {
      store_.save(snapshot);
    } catch (const InputError&) {
      throw;
    } catch (const Error& e) {
      throw SaveFailed(e.what());
    }
    durable_step_ = snapshot.step;
  };
  if (in_background_)
    pending_ = std::async(std::launch::async, std::move(work));
  else
    work();
}

void AsyncSaver::save_part(Snapshot&& snapshot) {
  step_ = snapshot.step;
  check_names(snapshot);
  std::int64_t bytes = 0;
  for (const std::string& part : comm::gather_texts(*ranks_, std::to_string(bytes_of(snapshot))))
    bytes += std::stoll(part);
  const std::string folder = begun_on_first(*ranks_, [&] { return store_.begin(step_, bytes); });
  given_up_ = false;
  std::promise<std::string> written;
  written_ = written.get_future();
  auto work = [this, folder, given = std::move(snapshot), written = std::move(written)]() mutable {
    std::string fault;
    try {
      const Snapshot part = std::move(given);
      store_.write_part(folder, ranks_->rank(), part);
    } catch (const std::exception& e) {
      fault = e.what();
    }
    written.set_value(fault);
    if (ranks_->rank() == 0) store_.complete(step_, ranks_->size(), {.given_up = &given_up_});
  };
  pending_ = std::async(std::launch::async, std::move(work));
  if (!in_background_) finish();
}

void AsyncSaver::finish() {
  if (!pending_.valid()) return;
  if (ranks_)
    agree();
  else
    pending_.get();
}

// What hindered a part says more than that the first rank has not found it, and nobody waits for it any more.
void AsyncSaver::agree() {
  const std::string fault = first_fault(comm::gather_texts(*ranks_, written_.get()));
  given_up_ = !fault.empty();
  std::string end = comm::on_first(*ranks_, [&] {
    try {
      pending_.get();
      return std::string();
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
  });
  if (pending_.valid()) pending_.get();
  if (!fault.empty()) end = concat("step ", step_, " is not saved: ", fault);
  if (!end.empty()) throw SaveFailed(end);
  durable_step_ = step_;
}

}  // namespace strata::checkpoint
