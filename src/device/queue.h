// The order in which the CPU runs jobs. Inline: at once. Queued: when somebody synchronises, in a seeded
// random order between streams subject to events, so that a missing wait or an early host read gives wrong
// numbers in a test. Dry: never; what would be allocated and computed can still be counted.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace strata::device {

enum class StreamMode { Inline, Queued, Dry };

// A point in a stream. Copies name the same point.
class Event {
 public:
  bool done() const { return *done_; }

 private:
  friend class JobQueue;
  std::shared_ptr<bool> done_ = std::make_shared<bool>(true);
};

class JobQueue {
 public:
  using Work = std::function<void()>;

  // `bracket(true)` is called before jobs run and `bracket(false)` after: memory is reachable only in
  // between.
  JobQueue(StreamMode mode, std::uint64_t seed, std::function<void(bool)> bracket)
      : mode_(mode), random_(seed), bracket_(std::move(bracket)) {}

  int add_stream();
  StreamMode mode() const { return mode_; }
  void submit(int stream, Work work);
  void record(int stream, Event& event);
  void wait(int stream, const Event& event);
  // Runs everything that was submitted; throws what a job threw. A wait for a point nobody records is an
  // error.
  void drain();
  // Runs until `event` is done, and no more of any stream than the random order took along.
  void drain_until(const Event& event);

 private:
  struct Entry {
    Work work;  // empty for a wait
    std::shared_ptr<bool> wait_for;
  };
  void run_inside(const Work& work);
  // Runs one entry of a random stream that can go on; false if nothing is left.
  bool run_one();

  StreamMode mode_;
  std::mt19937_64 random_;
  std::function<void(bool)> bracket_;
  std::vector<std::deque<Entry>> streams_;
};

}  // namespace strata::device
