#include "comm/progress.h"

#include <sys/prctl.h>

#include <algorithm>
#include <new>

namespace strata::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds kYielding{50};  // of nothing moving, before the thread sleeps

// A sixteenth of the time waited so far: late by little, and cheap when a peer takes long.
microseconds nap(Clock::duration waited) {
  return std::clamp(std::chrono::duration_cast<microseconds>(waited) / 16, microseconds(20),
                    microseconds(500));
}

}  // namespace

std::string sentence_of(const std::exception& e) {
  return dynamic_cast<const std::bad_alloc*>(&e) ? "out of memory" : e.what();
}

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::exception& e) {
    throw Error("no thread can be started: " + sentence_of(e));
  }
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Progress::fail(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why.empty() ? "the run was aborted" : why;
  }
  ended_.notify_all();
}

std::string Progress::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<Waiting> Progress::waiting() const {
  const std::lock_guard lock(mutex_);
  const auto seconds = [now = Clock::now()](Clock::time_point since) {
    return std::chrono::duration<double>(now - since).count();
  };
  std::vector<Waiting> all;
  for (const Transfer* t : transfers_) {
    Waiting w = t->label_;
    w.peers = t->peers();
    w.seconds = seconds(t->shared_.since);
    if (t->shared_.awaited) w.waited = seconds(*t->shared_.awaited);
    all.push_back(std::move(w));
  }
  return all;
}

void Progress::record(Recorder* recorder) {
  const std::lock_guard lock(mutex_);
  recorder_ = recorder;
}

void Progress::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

void Progress::post(Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;  // its wait says so
    if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
    transfer.shared_.since = Clock::now();
    transfer.shared_.number = operations_++;
    transfers_.push_back(&transfer);
    woken_ = true;
  }
  wake_.notify_one();
}

void Progress::wait(Transfer& transfer) {
  std::unique_lock lock(mutex_);
  const auto begin = Clock::now();
  const bool stands = !transfer.shared_.ended;
  transfer.shared_.awaited = begin;
  ended_.wait(lock, [&] { return transfer.shared_.ended || !failure_.empty(); });
  if (!failure_.empty()) throw Error(failure_);
  if (!transfer.shared_.error.empty()) throw Error(transfer.shared_.error);
  if (recorder_ && stands) recorder_->waited(transfer.shared_.number, begin, Clock::now());
}

void Progress::cancel(Transfer& transfer) {
  std::unique_lock lock(mutex_);
  const auto listed = [&] {
    return std::find(transfers_.begin(), transfers_.end(), &transfer) != transfers_.end();
  };
  if (!listed()) return;
  transfer.shared_.cancelled = woken_ = true;
  wake_.notify_one();
  ended_.wait(lock, [&] { return !listed(); });
}

void Progress::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL);  // nanoseconds; 50 us otherwise
  Clock::time_point moved_at = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (transfers_.empty()) {
      wake_.wait(lock, [&] { return stop_ || !transfers_.empty(); });
      moved_at = Clock::now();
      continue;
    }
    woken_ = false;
    for (Transfer* t : transfers_) t->withdrawn_ = t->shared_.cancelled;
    const std::vector<Transfer*> transfers = transfers_;
    lock.unlock();
    bool moved = false;
    for (Transfer* t : transfers) moved |= t->advance();
    const auto now = Clock::now();
    const auto waited = now - moved_at;
    if (moved)
      moved_at = now;
    else if (waited < kYielding)
      std::this_thread::yield();
    lock.lock();
    if (moved)
      publish();
    else if (waited >= kYielding)
      wake_.wait_for(lock, nap(waited), [&] { return woken_ || stop_; });
  }
}

// Under the lock: takes off the list what has ended.
void Progress::publish() {
  const auto ended = [this](Transfer* t) {
    if (!t->ended()) return false;
    t->shared_.ended = true;
    t->shared_.error = t->error_;
    if (recorder_) t->tell(*recorder_);
    return true;
  };
  if (std::erase_if(transfers_, ended) > 0) ended_.notify_all();
}

void Transfer::start() {
  if (state_ != State::New || plan_.rounds == 0) return;
  if (progress_) {
    if (plan_.staging > 0) staging_ = std::make_unique_for_overwrite<std::byte[]>(plan_.staging);
    progress_->post(*this);
  } else {
    for (int i = 0; i < plan_.rounds; ++i)
      if (const Round round = plan_.round(i, nullptr); round.then) round.then();
  }
  state_ = State::UnderWay;  // last: nobody waits for what could not begin
}

void Transfer::finish() {
  if (!progress_ || plan_.rounds == 0) return;
  STRATA_CHECK(state_ == State::UnderWay, "waiting for ", describe(label_), " which did not begin");
  progress_->wait(*this);
}

void Transfer::cancel() {
  if (progress_ && state_ == State::UnderWay) progress_->cancel(*this);
  state_ = State::Cancelled;
}

bool Transfer::advance() {
  const int finished = finished_, posted = posted_;
  try {
    if (withdrawn_) end();
    bool moved = false;
    do {
      post_rounds();
      for (Flight& flight : flights_) moved |= test(flight);
    } while (end_rounds());
    return moved || finished_ != finished || posted_ != posted;
  } catch (const std::exception& e) {
    Waiting where = label_;
    where.peers = peers();
    error_ = concat(describe(where), ": ", sentence_of(e));
  }
  end();
  return true;
}

void Transfer::post_rounds() {
  for (; posted_ < plan_.rounds && posted_ < finished_ + plan_.under_way; ++posted_) {
    Round round = plan_.round(posted_, staging_.get());
    Flight& flight = flights_.emplace_back();
    flight.then = std::move(round.then);
    for (const Message& m : round.messages) {
      flight.messages.push_back({m.peer, channel_->post(m)});
      open_[m.peer].fetch_add(1, std::memory_order_relaxed);
      peer_ = m.peer;
      if (m.way == Message::Way::Receive) received_ += m.bytes;
    }
  }
}

bool Transfer::test(Flight& flight) {
  const auto done = [this](const UnderWay& m) {
    if (!m.request->test()) return false;
    open_[m.peer].fetch_sub(1, std::memory_order_relaxed);
    return true;
  };
  return std::erase_if(flight.messages, done) > 0;
}

// Whether a round ended, so that another may be posted.
bool Transfer::end_rounds() {
  const int before = finished_;
  while (!flights_.empty() && flights_.front().messages.empty()) {
    if (flights_.front().then) flights_.front().then();
    flights_.pop_front();
    ++finished_;
  }
  return finished_ != before && !ended();
}

void Transfer::end() {
  flights_.clear();
  posted_ = finished_ = plan_.rounds;
}

void Transfer::tell(Recorder& recorder) const {
  if (!error_.empty() || withdrawn_) return;
  recorder.ended({.number = shared_.number,
                  .operation = label_,
                  .peer = peer_,
                  .sent = plan_.traffic.bytes,
                  .received = received_,
                  .begin = shared_.since,
                  .end = Clock::now()});
}

std::vector<int> Transfer::peers() const {
  std::vector<int> peers;
  for (std::size_t member = 0; member < open_.size(); ++member)
    if (open_[member].load(std::memory_order_relaxed) > 0) peers.push_back(int(member));
  return peers;
}

}  // namespace strata::comm
