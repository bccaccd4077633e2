#include "train/dry_run.h"

#include "train/step_metrics.h"
#include "train/trainer.h"

namespace strata::train {
namespace {

double Flops::*kind_of(std::string_view job) {
  if (job.starts_with("grouped_gemm")) return &Flops::experts;
  if (job.starts_with("attention")) return &Flops::attention;
  if (job.starts_with("depth_") || job.starts_with("hyper_")) return &Flops::residual;
  return &Flops::products;
}

class FlopCounter final : public device::JobObserver {
 public:
  void before(const device::JobInfo& job) override { count_.*kind_of(job.name) += job.flops; }
  void after(const device::JobInfo&) override {}
  // What came since the last call.
  Flops take() { return std::exchange(count_, {}); }

 private:
  Flops count_;
};

// The whole model on one rank.
RunConfig alone(RunConfig config) {
  config.parallel = {};
  return config;
}

class Rehearsal {
 public:
  explicit Rehearsal(const RunConfig& config, Use use)
      : config_(alone(config)),
        batch_(zeros(config, config.training.micro_batch_size)),
        trainer_(config_, device_, use) {
    device_.compute().observe(&flops_);
  }

  double tokens() const { return double(batch_.rows * batch_.length); }
  Flops evaluate() {
    trainer_.evaluate(batch_);
    return flops_.take();
  }
  Flops step() {
    StepObserver observer(device_);
    trainer_.update(trainer_.gradients(batch_, config_.logging.metrics_interval > 0 ? &observer : nullptr));
    return flops_.take();
  }
  std::map<std::string, std::int64_t> kept() { return trainer_.kept_for_backward(batch_); }
  Memory memory() { return memory_of(trainer_); }

 private:
  RunConfig config_;
  device::Device device_{kDry};
  HostBatch batch_;  // a micro-batch: every other one is like it
  FlopCounter flops_;
  Trainer trainer_;
};

}  // namespace

DryRun dry_run(const RunConfig& config) {
  Rehearsal rehearsal(config, Use::Training);
  DryRun d;
  const Flops step = rehearsal.step(), forward = rehearsal.evaluate();
  d.memory = rehearsal.memory();
  d.kept = rehearsal.kept();
  for (const auto kind : kFlopKinds) {
    d.forward.*kind = forward.*kind / rehearsal.tokens();
    d.backward.*kind = 2 * d.forward.*kind;
    // Counts are whole numbers: nothing computed again is 0, no rounding.
    d.recompute.*kind = (step.*kind - 3 * forward.*kind) / rehearsal.tokens();
  }
  return d;
}

double model_flops_per_token(const RunConfig& config) {
  Rehearsal rehearsal(config, Use::Evaluation);
  return 3 * rehearsal.evaluate().total() / rehearsal.tokens();
}

}  // namespace strata::train
