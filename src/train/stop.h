// Why a run should save and end: a signal, a file named `stop` in its folder, or the clock.
#pragma once
#include <chrono>
#include <optional>
#include <string>

namespace strata::train {

// While it lives, SIGTERM, SIGINT and SIGUSR1 are noted instead of ending the process; a second SIGINT ends
// it at once. One at a time in a process: signals are process-wide.
class StopRequests {
 public:
  // `minutes`, if any, count from now. A stop file left from before is removed. No folder: no file is looked
  // for.
  StopRequests(const std::optional<std::string>& folder, std::optional<double> minutes);
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;

  // In words; none: go on. A stop file is removed once it has been seen.
  std::optional<std::string> reason();

 private:
  std::string file_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<double> minutes_;
  std::optional<std::string> found_;
};

}  // namespace strata::train
