#include "train/watchdog.h"

#include <algorithm>

#include "train/run_text.h"

namespace strata::train {
namespace {

constexpr double kLast = 10;  // seconds for an error to end the run
constexpr double kAbort = 2;  // more, before one that hangs is ended by another rank

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Watchdog::Watchdog(const comm::Mesh& mesh, Options options, double times)
    : mesh_(mesh),
      world_(mesh.world()),
      options_(std::move(options)),
      times_(times),
      limit_(times * options_.seconds) {
  if (!options_.say) options_.say = [](const std::string&) {};
  if (limit_ > 0 && world_.size() > 1) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch() {
  const std::chrono::duration<double> pause(std::clamp(limit_ / 10, 0.01, 0.25));
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [&] { return over_; })) {
    lock.unlock();
    try {
      look();
    } catch (const std::exception& e) {  // the messages of watchdogs fail, too, when ranks die
      world_.fail(e.what());
    }
    lock.lock();
  }
}

// What the rank stands still for.
std::optional<comm::Waiting> Watchdog::longest() const {
  std::optional<comm::Waiting> longest;
  for (comm::Waiting& w : world_.waiting())
    if (w.waited > (longest ? longest->waited : 0)) longest = std::move(w);
  return longest;
}

bool Watchdog::alarmed(const std::optional<comm::Waiting>& waiting) {
  const bool too_long = waiting && waiting->waited >= limit_;
  if (!alarm_ && (too_long || !world_.stuck().empty())) alarm_ = Clock::now();
  return alarm_.has_value();
}

void Watchdog::look() {
  if (const std::string why = world_.failure(); !why.empty()) return look_at_failure(why);
  const std::optional<comm::Waiting> waiting = longest();
  if (!alarmed(waiting)) return;
  if (waiting && !told_) {
    told_ = true;
    options_.say(account(*waiting));
    world_.tell_stuck();
  }
  judge(since(*alarm_));
}

// The error should have ended this rank by now; one that hangs outside of all waits cannot see it.
void Watchdog::look_at_failure(const std::string& why) {
  if (!failed_) failed_ = Clock::now();
  if (options_.last && since(*failed_) > kLast) options_.last(why);
}

// The first rank of those that wait fails in its wait, and thereby ends all.
void Watchdog::judge(double since_alarm) {
  const std::set<int> stuck = world_.stuck();
  if (!told_ && !spoke_ && since_alarm > options_.grace / 2) {
    spoke_ = true;
    options_.say(concat(name(world_.rank()), " waits for nobody: it computes, or hangs"));
  }
  if (since_alarm < options_.grace) return;
  if (told_ && *stuck.begin() == world_.rank()) world_.fail(verdict(stuck));
  if (since_alarm < options_.grace + kLast + kAbort) return;
  options_.say(verdict(stuck));
  world_.abort(verdict(stuck));
}

std::string Watchdog::name(int rank) const { return concat("rank ", rank, " (", mesh_.position(rank), ")"); }

// "rank 0 (pp 0/2 ...) has waited 600.1 s for rank 1 (pp 1/2 ...): reduce_scatter 12 of gradient of w,
// [16384] float32, in group data". The tag of a message would say nothing.
std::string Watchdog::account(const comm::Waiting& w) const {
  std::string whom;
  for (const int peer : w.peers) whom += (whom.empty() ? "" : ", ") + name(w.members.at(peer));
  std::string text = concat(name(world_.rank()), " has waited ", format("%.1f", w.waited), " s for ",
                            whom.empty() ? "its own messages" : whom, ": ", w.operation);
  if (w.operation != "send" && w.operation != "receive") text += concat(" ", w.tag);
  if (!w.what.empty()) text += concat(" of ", w.what);
  return concat(text, ", ", w.shape, ", in group ", w.communicator);
}

std::string Watchdog::verdict(const std::set<int>& stuck) const {
  std::string missing;
  for (int rank = 0; rank < world_.size(); ++rank)
    if (!stuck.count(rank)) missing += (missing.empty() ? "" : ", ") + name(rank);
  const std::string limit =
      concat(limit_, " s (", times_ == 1 ? "" : concat(times_, " x "), "resilience.watchdog_seconds)");
  if (missing.empty())
    return concat("all ranks wait for each other, beyond ", limit,
                  ": they are not at the same operation; backend.check_collectives finds where they part");
  return concat(missing, " did not come within ", limit, " to where others wait for it");
}

}  // namespace strata::train
