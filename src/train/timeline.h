// What a rank does and waits for while it is watched, with times: jobs and actions of the compute stream,
// communication under way beside it.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/fields.h"
#include "comm/recorder.h"
#include "device/stream.h"
#include "pipeline/executor.h"

namespace strata::train {

// Nanoseconds of the steady clock.
struct Span {
  std::int64_t begin = 0, end = 0;
  std::int64_t length() const { return end > begin ? end - begin : 0; }
};

struct JobSpan {
  std::string_view name;
  device::Phase phase;
  Span span;
};

struct ActionSpan {
  pipeline::Action action;
  Span span;
};

struct StepSpan {
  std::int64_t step;
  Span span;
};

enum class CommKind : std::uint8_t { Pipeline, Experts, Gradients, Weights, Other };
constexpr int kCommKinds = 5;
constexpr auto enum_names(CommKind) {
  return std::array<std::string_view, 5>{"pipeline", "all-to-all", "gradient reduction", "parameter gather",
                                         "other"};
}

// A message or a collective, from its start on this rank to its end.
struct CommSpan {
  CommKind kind;
  std::string operation, communicator, what;
  std::vector<int> ranks;  // of the world, this one among them: sender and receiver, or all members
  std::string key;         // equal on all of them; of equal keys, the n-th belong together
  std::int64_t sent, received;
  Span span;
  std::int64_t ready;  // when the last of the ranks began it; before that nothing can move
};

// The compute stream stood still for communication.
struct WaitSpan {
  std::size_t of;  // in Timeline::communication()
  Span span;
};

class Timeline final : public device::JobObserver, public pipeline::ActionObserver, public comm::Recorder {
 public:
  void begin_step(std::int64_t step);
  void end_step();

  void before(const device::JobInfo& job) override;
  void after(const device::JobInfo& job) override;
  void before(const pipeline::Action& action) override;
  void after(const pipeline::Action& action) override;
  void ended(const Done& done) override;
  void waited(std::int64_t number, Time begin, Time end) override;

  // In the order in which they ended.
  const std::vector<StepSpan>& steps() const { return steps_; }
  const std::vector<JobSpan>& jobs() const { return jobs_; }
  const std::vector<ActionSpan>& actions() const { return actions_; }
  const std::vector<CommSpan>& communication() const { return communication_; }
  const std::vector<WaitSpan>& waits() const { return waits_; }
  // What happens between steps, evaluation say, is none of theirs.
  bool begins_in_step(Span span) const;

  // For the other ranks: a line for each operation, its start and its key.
  std::string starts() const;
  // starts() of all ranks that took part, this one among them, and how far each one's clock is ahead of this
  // rank's: sets `ready`.
  void meet(const std::vector<std::string>& starts, const std::vector<std::int64_t>& ahead);

 private:
  std::vector<StepSpan> steps_;
  std::vector<JobSpan> jobs_;
  std::vector<ActionSpan> actions_;
  std::vector<CommSpan> communication_;
  std::vector<WaitSpan> waits_;
  std::unordered_map<std::int64_t, std::size_t> by_number_;  // in communication_
};

std::int64_t now();

}  // namespace strata::train
