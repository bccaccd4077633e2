// A stream runs jobs (kernels/jobs.h) in order. run(stream, job) is found by the job's own namespace: a
// backend without the overload does not compile.
#pragma once
#include <memory>
#include <string_view>

#include "device/queue.h"

namespace strata::device {

// Floating-point operations of a job; a job of weight has an overload of its own, found in its namespace.
template <class Job>
double flops(const Job&) {
  return 0;
}

// Sees every job as it runs: timing, counts, checks. One hook for all kernels.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void before(std::string_view job, double flops) = 0;
  virtual void after(std::string_view job) = 0;
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
    if (queue_->mode() == StreamMode::Dry) return observed(job, [] {});
    queue_->submit(id_, [this, job] { observed(job, [&] { run_on(*this, job); }); });
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
  void observed(const Job& job, const Work& work) {
    if (observer_) observer_->before(Job::kName, flops(job));
    work();
    if (observer_) observer_->after(Job::kName);
  }
  void* scratch_bytes(std::int64_t bytes);

  struct Free {
    void operator()(void* p) const;
  };
  JobQueue* queue_;
  int id_;
  JobObserver* observer_ = nullptr;
  std::unique_ptr<void, Free> scratch_;
  std::int64_t capacity_ = 0;
};

using Stream = CpuStream;

}  // namespace strata::device
