#include "train/stop.h"

#include <csignal>
#include <filesystem>

#include "base/error.h"

namespace strata::train {
namespace {

// The one process-wide thing here: a handler has nowhere else to write to.
volatile std::sig_atomic_t noted_signal = 0;

struct Handled {
  int number;
  const char* name;
};
constexpr Handled kHandled[] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}};

void note(int number) { noted_signal = number; }

}  // namespace

StopRequests::StopRequests(const std::optional<std::string>& folder, std::optional<double> minutes)
    : file_(folder ? (std::filesystem::path(*folder) / "stop").string() : ""), minutes_(minutes) {
  using std::chrono::duration, std::chrono::duration_cast, std::chrono::steady_clock;
  if (minutes)
    deadline_ = steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(*minutes * 60));
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
  noted_signal = 0;
  for (const Handled& h : kHandled) {
    struct sigaction action = {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    if (h.number == SIGINT) action.sa_flags |= int(SA_RESETHAND);
    sigaction(h.number, &action, nullptr);
  }
}

StopRequests::~StopRequests() {
  for (const Handled& h : kHandled) std::signal(h.number, SIG_DFL);
}

std::optional<std::string> StopRequests::reason() {
  if (found_) return found_;
  for (const Handled& h : kHandled)
    if (noted_signal == h.number) found_ = h.name;
  std::error_code ignored;
  if (!file_.empty() && std::filesystem::remove(file_, ignored)) found_ = concat("the file ", file_);
  if (deadline_ && std::chrono::steady_clock::now() >= *deadline_)
    found_ = concat("resilience.exit_duration_in_mins ", *minutes_);
  return found_;
}

}  // namespace strata::train
