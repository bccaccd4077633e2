#include "train/bench.h"

#include <algorithm>
#include <chrono>

#include "base/philox.h"
#include "train/dry_run.h"
#include "train/trainer.h"

namespace strata::train {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class JobTimer final : public device::JobObserver {
 public:
  explicit JobTimer(const Roofs& roofs) : roofs_(roofs) {}

  void before(const device::JobInfo&) override { start_ = Clock::now(); }
  void after(const device::JobInfo& job) override {
    JobTime one{.calls = 1, .seconds = since(start_), .flops = job.flops, .bytes = job.bytes};
    one.roof_seconds = std::max(job.flops / roofs_.flops, job.bytes / roofs_.bytes);
    times[{std::string(job.name), job.phase, job.flops, job.bytes}].add(one);
  }

  JobTimes times;

 private:
  Roofs roofs_;
  Clock::time_point start_;
};

HostBatch random_batch(const RunConfig& config) {
  const Philox random(std::uint64_t(config.run.seed), "bench");
  HostBatch b{.rows = config.training.batch_size(),
              .length = config.training.seq_length,
              .input_ids = {},
              .labels = {},
              .documents = {}};
  const auto token = [&](std::int64_t i) {
    return std::int64_t(random.bits(std::uint64_t(i)) % std::uint64_t(config.model.vocab_size));
  };
  for (std::int64_t i = 0; i < b.rows * b.length; ++i) {
    b.input_ids.push_back(token(2 * i));
    b.labels.push_back(token(2 * i + 1));
  }
  if (config.data.reset_attention_mask) b.documents.assign(b.input_ids.size(), 0);
  return b;
}

}  // namespace

struct BenchRun::Parts {
  Parts(const RunConfig& c, const Roofs& roofs)
      : config(c), timer(roofs), batch(random_batch(config)), trainer(config, device) {}

  RunConfig config;
  device::Device device;
  JobTimer timer;
  HostBatch batch;
  Trainer trainer;
};

BenchRun::BenchRun(const RunConfig& config, const Roofs& roofs)
    : parts_(std::make_unique<Parts>(config, roofs)) {
  tokens_ = double(parts_->batch.rows * parts_->batch.length);
  flops_ = tokens_ * model_flops_per_token(config);
  parts_->trainer.step(parts_->batch);
  parts_->device.compute().observe(&parts_->timer);
}

BenchRun::~BenchRun() = default;
BenchRun::BenchRun(BenchRun&&) noexcept = default;

double BenchRun::step() {
  const Clock::time_point start = Clock::now();
  parts_->trainer.step(parts_->batch);
  parts_->device.compute().synchronize();
  seconds_.push_back(since(start));
  return seconds_.back();
}

const JobTimes& BenchRun::jobs() const { return parts_->timer.times; }

void JobTime::add(const JobTime& other) {
  calls += other.calls;
  seconds += other.seconds;
  flops += other.flops;
  bytes += other.bytes;
  roof_seconds += other.roof_seconds;
}

double median(std::vector<double> values) {
  const std::size_t n = values.size();
  std::sort(values.begin(), values.end());
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace strata::train
