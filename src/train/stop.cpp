#include "train/stop.h"

#include <atomic>
#include <filesystem>

#include "base/error.h"

namespace strata::train {
namespace {

// The one process-wide thing here: a handler has nowhere else to write to. Every rank's thread reads it.
std::atomic<int> noted_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a handler may not wait for a lock");

struct Handled {
  int number;
  const char* name;
};
constexpr std::array<Handled, 3> kHandled{{{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}}};

void note(int number) { noted_signal = number; }

}  // namespace

StopSignals::StopSignals() {
  noted_signal = 0;
  for (std::size_t i = 0; i < kHandled.size(); ++i) {
    struct sigaction action = {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    if (kHandled[i].number == SIGINT) action.sa_flags |= int(SA_RESETHAND);
    sigaction(kHandled[i].number, &action, &before_[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i].number, &before_[i], nullptr);
  noted_signal = 0;
}

StopRequests::StopRequests(const std::optional<std::string>& folder, std::optional<double> minutes)
    : file_(folder ? (std::filesystem::path(*folder) / "stop").string() : ""), minutes_(minutes) {
  using std::chrono::duration, std::chrono::duration_cast, std::chrono::steady_clock;
  if (minutes)
    deadline_ = steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(*minutes * 60));
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
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

bool StopRequests::on_any(const comm::Mesh& mesh, device::Device& device) {
  const bool asked = reason().has_value();
  if (mesh.shape().world() == 1) return asked;
  const Tensor any(device, {1}, DType::Int64, device::Purpose::Data);
  from_host(device, any, std::vector<std::int64_t>{asked});
  mesh.all().all_reduce(device.compute(), any, "stop requests").wait(device.compute());
  return to_host_int(device, any, "stop requests").at(0) > 0;
}

}  // namespace strata::train
