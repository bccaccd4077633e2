#include "train/timeline.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"
#include "optim/reduction.h"

namespace strata::train {
namespace {

std::int64_t nanoseconds(comm::Recorder::Time t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}

CommKind kind_of(const comm::Waiting& w) {
  if (w.communicator == "pipeline") return CommKind::Pipeline;
  if (w.communicator == "expert") return CommKind::Experts;
  if (w.what.starts_with(optim::kGradientOf)) return CommKind::Gradients;
  if (w.what.starts_with(optim::kWeightsOf)) return CommKind::Weights;
  return CommKind::Other;
}

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int r : ranks) text += concat(text.empty() ? "" : ",", r);
  return text;
}

}  // namespace

std::int64_t now() { return nanoseconds(std::chrono::steady_clock::now()); }

void Timeline::begin_step(std::int64_t step) { steps_.push_back({step, {now(), 0}}); }
void Timeline::end_step() { steps_.back().span.end = now(); }

void Timeline::before(const device::JobInfo& job) { jobs_.push_back({job.name, job.phase, {now(), 0}}); }
void Timeline::after(const device::JobInfo&) { jobs_.back().span.end = now(); }

void Timeline::before(const pipeline::Action& action) { actions_.push_back({action, {now(), 0}}); }
void Timeline::after(const pipeline::Action&) { actions_.back().span.end = now(); }

void Timeline::ended(const Done& done) {
  const comm::Waiting& w = done.operation;
  CommSpan c{.kind = kind_of(w),
             .operation = w.operation,
             .communicator = w.communicator,
             .what = w.what,
             .ranks = w.members,
             .key = {},
             .sent = done.sent,
             .received = done.received,
             .span = {nanoseconds(done.begin), nanoseconds(done.end)},
             .ready = nanoseconds(done.begin)};
  const int mine = w.members.at(w.rank), other = w.members.at(done.peer);
  if (w.operation == "send") c.ranks = {mine, other};
  if (w.operation == "receive") c.ranks = {other, mine};
  const bool message = w.operation == "send" || w.operation == "receive";
  c.key = concat(w.communicator, " ", message ? "message" : w.operation, " ", w.tag, " ", listed(c.ranks));
  by_number_[done.number] = communication_.size();
  communication_.push_back(std::move(c));
}

void Timeline::waited(std::int64_t number, Time begin, Time end) {
  const auto found = by_number_.find(number);
  if (found != by_number_.end()) waits_.push_back({found->second, {nanoseconds(begin), nanoseconds(end)}});
}

bool Timeline::begins_in_step(Span span) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const StepSpan& s) {
    return s.span.begin <= span.begin && span.begin <= s.span.end;
  });
}

// Equal keys end in the order of their start.
std::string Timeline::starts() const {
  std::string text;
  for (const CommSpan& c : communication_) text += concat(c.span.begin, " ", c.key, "\n");
  return text;
}

void Timeline::meet(const std::vector<std::string>& starts, const std::vector<std::int64_t>& ahead) {
  std::map<std::string, std::vector<std::int64_t>> ready;  // by key: of the first, the second, ...
  for (std::size_t rank = 0; rank < starts.size(); ++rank) {
    std::map<std::string, std::size_t> seen;
    std::istringstream lines(starts[rank]);
    std::int64_t start = 0;
    for (std::string key; lines >> start && std::getline(lines.ignore(1), key);) {
      std::vector<std::int64_t>& times = ready[key];
      const std::size_t n = seen[key]++;
      if (n == times.size()) times.push_back(start - ahead[rank]);
      times[n] = std::max(times[n], start - ahead[rank]);
    }
  }
  std::map<std::string, std::size_t> seen;
  for (CommSpan& c : communication_)
    if (const auto found = ready.find(c.key); found != ready.end())
      if (const std::size_t n = seen[c.key]++; n < found->second.size()) c.ready = found->second[n];
}

}  // namespace strata::train
