// Ends a run whose ranks wait for one that does not come, and says who waits for what. A rank that has waited
// too long tells the others; who waits then says for whom; who does not is the one that did not come: it
// computes, hangs, or has left.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "comm/mesh.h"

namespace strata::train {

class Watchdog {
 public:
  // Before the first step a rank may be waited for so many times longer: ranks start one by one, and one may
  // look through a large checkpoint for all.
  static constexpr double kStart = 10;
  struct Options {
    double seconds = 600;                          // 0, or a rank alone: nothing is watched
    double grace = 1;                              // seconds for all ranks to tell
    std::function<void(const std::string&)> say;   // one line of one rank
    std::function<void(const std::string&)> last;  // ends this process, where an error did not; may be empty
  };
  // Watches what this rank waits for until it is destroyed; its limit is times * options.seconds. One at a
  // time on a rank.
  Watchdog(const comm::Mesh& mesh, Options options, double times = 1);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  bool alarmed(const std::optional<comm::Waiting>& waiting);
  void look();
  void look_at_failure(const std::string& why);
  void judge(double since_alarm);
  std::optional<comm::Waiting> longest() const;
  std::string name(int rank) const;
  std::string account(const comm::Waiting& waiting) const;
  std::string verdict(const std::set<int>& stuck) const;

  const comm::Mesh& mesh_;
  comm::World& world_;
  Options options_;
  double times_, limit_;  // seconds * times
  std::optional<Clock::time_point> alarm_, failed_;
  bool told_ = false, spoke_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace strata::train
