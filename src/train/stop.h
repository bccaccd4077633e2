// Why a run should save and end: a signal, a file named `stop` in its folder, or the clock.
#pragma once
#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>

#include "comm/mesh.h"

namespace strata::train {

// While it lives, SIGTERM, SIGINT and SIGUSR1 are noted instead of ending the process; a second SIGINT ends
// it at once. One in a process, made before its ranks begin and destroyed after they end: signals are
// process-wide.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

 private:
  std::array<struct sigaction, 3> before_;
};

// What one rank looks at.
class StopRequests {
 public:
  // `minutes`, if any, count from now. A stop file left from before is removed. No folder: no file is looked
  // for.
  StopRequests(const std::optional<std::string>& folder, std::optional<double> minutes);
  StopRequests(const StopRequests&) = delete;

  // In words; none: go on. A stop file is removed once it has been seen. Signals count while StopSignals
  // lives.
  std::optional<std::string> reason();
  // Whether any rank has a reason. Every rank calls it, between the same two steps or batches.
  bool on_any(const comm::Mesh& mesh, device::Device& device);

 private:
  std::string file_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::optional<double> minutes_;
  std::optional<std::string> found_;
};

}  // namespace strata::train
