// One thread per rank that carries its operations: starts them as they are posted, tests their messages, adds
// and copies. It never touches a Tensor, only memory that a Transfer gives it and takes back.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/plan.h"
#include "comm/recorder.h"

namespace strata::comm {

// What it says; of std::bad_alloc, which says nothing: "out of memory".
std::string sentence_of(const std::exception& e);
// Throws Error "no thread can be started: ...".
std::thread start_thread(std::function<void()> body);

class Transfer;

class Progress {
 public:
  Progress() = default;
  ~Progress();
  Progress(const Progress&) = delete;

  // Every wait from here on throws Error(why); the first reason stays.
  void fail(const std::string& why);
  std::string failure() const;  // that reason; empty: none
  std::vector<Waiting> waiting() const;
  void record(Recorder* recorder);
  // Something may have happened to a message of this rank.
  void wake();

 private:
  friend class Transfer;
  void post(Transfer& transfer);
  void wait(Transfer& transfer);
  void cancel(Transfer& transfer);

  void run();
  void publish();

  mutable std::mutex mutex_;              // guards all that follows, and the `Shared` of every transfer
  std::condition_variable wake_, ended_;  // for the thread; for those who wait
  std::vector<Transfer*> transfers_;      // posted and not ended
  std::string failure_;
  Recorder* recorder_ = nullptr;
  std::int64_t operations_ = 0;  // so far
  bool woken_ = false, stop_ = false;
  std::thread thread_;  // begins with the first operation
};

// A plan under way. Without a Progress (a group of one) it runs where it is started.
class Transfer final : public Operation {
 public:
  Transfer(Progress* progress, std::shared_ptr<Channel> channel, Plan plan, Waiting label)
      : progress_(progress),
        channel_(std::move(channel)),
        plan_(std::move(plan)),
        label_(std::move(label)),
        open_(label_.size) {}
  ~Transfer() override { cancel(); }

  void start() override;
  void finish() override;
  void cancel() override;
  Traffic traffic() const override { return plan_.traffic; }

 private:
  friend class Progress;
  struct UnderWay {
    int peer;
    std::unique_ptr<Request> request;
  };
  struct Flight {  // a round that was posted
    std::vector<UnderWay> messages;
    std::function<void()> then;
  };
  // On the progress thread: whether anything moved.
  bool advance();
  void post_rounds();
  bool test(Flight& flight);
  bool end_rounds();
  void end();
  bool ended() const { return finished_ == plan_.rounds; }
  std::vector<int> peers() const;
  void tell(Recorder& recorder) const;

  Progress* progress_;
  std::shared_ptr<Channel> channel_;
  Plan plan_;
  Waiting label_;
  enum class State { New, UnderWay, Cancelled } state_ = State::New;  // of the rank's thread
  // Messages not done, by member: the progress thread counts, whoever asks reads.
  std::vector<std::atomic<int>> open_;

  struct Shared {
    bool cancelled = false, ended = false;
    std::string error;
    std::chrono::steady_clock::time_point since;
    std::int64_t number = 0;                                       // of this rank's operations
    std::optional<std::chrono::steady_clock::time_point> awaited;  // since when somebody stands still for it
  } shared_;

  // Of the progress thread.
  std::unique_ptr<std::byte[]> staging_;
  std::deque<Flight> flights_;
  int posted_ = 0, finished_ = 0;  // rounds
  bool withdrawn_ = false;
  int peer_ = 0;               // of the last message
  std::int64_t received_ = 0;  // bytes, with those under way
  std::string error_;
};

}  // namespace strata::comm
