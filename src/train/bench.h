// Training steps on random tokens, timed: whole, and every job in them.
#pragma once
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/stream.h"
#include "train/config.h"

namespace strata::train {

// Roofs of this machine (peaks.h).
struct Roofs {
  double flops = 0;  // per second, in the run's precision
  double bytes = 0;  // per second, read and written
};

struct JobTime {
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
  double roof_seconds = 0;  // what its calls would take at the roof that binds them: operations or bytes

  void add(const JobTime& other);
};

// Jobs of one name, phase and size are one row.
struct JobKey {
  std::string name;
  device::Phase phase = device::Phase::Forward;
  double flops = 0, bytes = 0;

  auto operator<=>(const JobKey&) const = default;
};
using JobTimes = std::map<JobKey, JobTime>;

class BenchRun {
 public:
  // Allocates the model and takes one step, which also fills caches.
  BenchRun(const RunConfig& config, const Roofs& roofs);
  ~BenchRun();
  BenchRun(BenchRun&&) noexcept;

  // One more step on the same batch; its seconds.
  double step();
  const std::vector<double>& seconds() const { return seconds_; }
  // Sums over the steps taken.
  const JobTimes& jobs() const;
  double tokens() const { return tokens_; }  // of a step
  double flops() const { return flops_; }    // of a step, forward and backward once

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::vector<double> seconds_;
  double tokens_ = 0, flops_ = 0;
};

double median(std::vector<double> values);

}  // namespace strata::train
