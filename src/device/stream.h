// A stream runs jobs (kernels/jobs.h) in order. run(stream, job) is found by the job's own namespace: a
// backend without the overload does not compile.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "device/queue.h"

namespace strata::device {

// Floating-point operations of a job, and bytes that it must move. Jobs of weight have overloads of their
// own, found in their namespace.
template <class Job>
double flops(const Job&) {
  return 0;
}
template <class Job>
double bytes(const Job&) {
  return 0;
}

// What a job is run for.
enum class Phase : std::uint8_t { Forward, Recompute, Backward, Optimizer };
constexpr int kPhases = 4;
constexpr std::string_view name_of(Phase phase) {
  constexpr std::string_view names[] = {"forward", "recompute", "backward", "optimizer"};
  return names[int(phase)];
}

struct JobInfo {
  std::string_view name;
  Phase phase = Phase::Forward;
  double flops = 0, bytes = 0;
};

// Sees every job as it runs: timing, counts, checks. One hook for all kernels.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void before(const JobInfo& job) = 0;
  virtual void after(const JobInfo& job) = 0;
};

// Unqualified, outside the class, so that the call is looked up in the job's namespace.
template <class S, class Job>
void run_on(S& stream, const Job& job) {
  run(stream, job);
}

class CpuStream {
 public:
  explicit CpuStream(JobQueue& queue) : queue_(&queue), id_(queue.add_stream()) {}

  template <class Job>
  void run(const Job& job) {
    if (queue_->mode() == StreamMode::Dry) return observed(job, phase_, [] {});
    queue_->submit(id_, [this, job, phase = phase_] { observed(job, phase, [&] { run_on(*this, job); }); });
  }
  void host_work(JobQueue::Work work) { queue_->submit(id_, std::move(work)); }
  void record(Event& event) { queue_->record(id_, event); }
  void wait(const Event& event) { queue_->wait(id_, event); }
  void synchronize() { queue_->drain(); }

  // Working memory of the job that runs now; the next job may overwrite it. 64-byte aligned, contents
  // undefined.
  template <class T>
  T* scratch(std::int64_t count) {
    return static_cast<T*>(scratch_bytes(count * sizeof(T)));
  }
  std::int64_t scratch_capacity() const { return capacity_; }

  void observe(JobObserver* observer) { observer_ = observer; }

 private:
  template <class Job, class Work>
  void observed(const Job& job, Phase phase, const Work& work) {
    if (!observer_) return work();
    const JobInfo info{Job::kName, phase, flops(job), bytes(job)};
    observer_->before(info);
    work();
    observer_->after(info);
  }
  friend class PhaseScope;
  void* scratch_bytes(std::int64_t bytes);

  struct Free {
    void operator()(void* p) const;
  };
  JobQueue* queue_;
  int id_;
  JobObserver* observer_ = nullptr;
  Phase phase_ = Phase::Forward;
  std::unique_ptr<void, Free> scratch_;
  std::int64_t capacity_ = 0;
};

using Stream = CpuStream;

// Jobs submitted while it lives are for `phase`.
class PhaseScope {
 public:
  PhaseScope(Stream& stream, Phase phase) : stream_(stream), before_(std::exchange(stream.phase_, phase)) {}
  ~PhaseScope() { stream_.phase_ = before_; }
  PhaseScope(const PhaseScope&) = delete;

 private:
  Stream& stream_;
  Phase before_;
};

}  // namespace strata::device
