#include "device/queue.h"

#include "base/error.h"

namespace strata::device {
namespace {

// Closes the memory again whatever a job throws.
class Bracket {
 public:
  explicit Bracket(const std::function<void(bool)>& f) : f_(f) { f_(true); }
  ~Bracket() { f_(false); }
  Bracket(const Bracket&) = delete;

 private:
  const std::function<void(bool)>& f_;
};

}  // namespace

int JobQueue::add_stream() {
  streams_.emplace_back();
  return int(streams_.size()) - 1;
}

void JobQueue::run_inside(const Work& work) {
  const Bracket open(bracket_);
  work();
}

void JobQueue::submit(int stream, Work work) {
  if (mode_ == StreamMode::Dry) return;
  if (mode_ == StreamMode::Inline) return run_inside(work);
  streams_[stream].push_back({std::move(work), nullptr});
}

void JobQueue::record(int stream, Event& event) {
  event.done_ = std::make_shared<bool>(mode_ != StreamMode::Queued);
  if (mode_ == StreamMode::Queued)
    streams_[stream].push_back({[done = event.done_] { *done = true; }, nullptr});
}

void JobQueue::wait(int stream, const Event& event) {
  if (mode_ == StreamMode::Queued) streams_[stream].push_back({nullptr, event.done_});
}

bool JobQueue::run_one() {
  std::vector<std::deque<Entry>*> ready;
  bool left = false;
  for (auto& queue : streams_) {
    while (!queue.empty() && queue.front().wait_for && *queue.front().wait_for) queue.pop_front();
    if (queue.empty()) continue;
    left = true;
    if (!queue.front().wait_for) ready.push_back(&queue);
  }
  STRATA_CHECK(!ready.empty() || !left, "streams wait for events that nothing will record");
  if (ready.empty()) return false;
  auto& queue = *ready[random_() % ready.size()];
  const Entry entry = std::move(queue.front());
  queue.pop_front();
  entry.work();
  return true;
}

void JobQueue::drain() {
  const Bracket open(bracket_);
  while (run_one()) {
  }
}

void JobQueue::drain_until(const Event& event) {
  const Bracket open(bracket_);
  while (!event.done() && run_one()) {
  }
}

}  // namespace strata::device
