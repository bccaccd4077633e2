#include "train/trainer.h"

#include <cmath>

#include "kernels/jobs.h"
#include "optim/lr_schedule.h"

namespace strata::train {
namespace {

void accumulate(Tape& tape, const Var& loss, const Tensor& into) {
  tape.stream().run(kernels::Copy{.x = loss.value, .y = into, .mode = Write::Accumulate});
}

}  // namespace

Trainer::Trainer(const RunConfig& config, device::Device& device, Use use)
    : config_(config), device_(device) {
  const model::ModelConfig& m = config.model;
  stage_ =
      std::make_unique<model::Stage>(m, model::StageRange{0, int(m.num_hidden_layers), true, true}, store_);
  store_.allocate(device, config.precision.dtype(), use == Use::Training);
  stage_->allocate(device);
  store_.initialize(std::uint64_t(config.run.seed));
  if (use == Use::Training) optimizer_ = std::make_unique<optim::Optimizer>(config.optimizer, device, store_);
  losses_ = Tensor(device, {3}, acc_of(config.precision.dtype()), device::Purpose::Data);
}

Tape::Options Trainer::tape_options(Observer* observer) const {
  const RecomputeSection& r = config_.recompute;
  return {.recording = true,
          .recompute = {.norm = r.drops(RecomputeModule::LayerNorm),
                        .activation = r.drops(RecomputeModule::MoeAct),
                        .attention = r.drops(RecomputeModule::CoreAttn),
                        .depth_retrieval = r.drops(RecomputeModule::DepthRetrieval)},
          .observer = observer};
}

model::Losses Trainer::forward(Tape& tape, const model::MicroBatch& batch, const model::Counts& counts) {
  return stage_->forward(tape, batch, counts,
                         {.recompute_layers = config_.recompute.granularity == Granularity::Full});
}

std::map<std::string, std::int64_t> Trainer::kept_for_backward(const HostBatch& rows) {
  const model::MicroBatch batch = model::upload(device_, rows, config_.model.has_mtp());
  Tape tape(device_, tape_options(nullptr));
  const model::Losses losses = forward(tape, batch, model::count(rows));
  return tape.report();
}

void Trainer::micro_batch(const HostBatch& rows, const model::Counts& counts, Observer* observer) {
  const model::MicroBatch batch = model::upload(device_, rows, config_.model.has_mtp());
  Tape tape(device_, tape_options(observer));
  const model::Losses losses = forward(tape, batch, counts);
  accumulate(tape, losses.lm, losses_.slice(0, 1));
  for (const Var& aux : losses.aux) accumulate(tape, aux, losses_.slice(1, 2));
  if (config_.model.has_mtp()) accumulate(tape, losses.mtp, losses_.slice(2, 3));
  stage_->backward(tape, losses);
  if (!observer || !observer->wants("token_loss")) return;
  const std::vector<double> mine = to_host(device_, losses.token_loss, "token losses");
  token_losses_.insert(token_losses_.end(), mine.begin(), mine.end());
}

StepResult Trainer::gradients(const HostBatch& global, Observer* observer) {
  STRATA_CHECK(optimizer_, "a trainer for evaluation has no gradients");
  const model::Counts counts = model::count(global);
  token_losses_.clear();
  store_.zero_grads();
  device_.compute().run(kernels::Fill{.y = losses_, .value = 0});
  for (std::int64_t row = 0; row < global.rows; row += config_.training.micro_batch_size)
    micro_batch(global.slice(row, std::min(global.rows, row + config_.training.micro_batch_size)), counts,
                observer);
  StepResult result;
  result.step = steps_ + 1;
  result.learning_rate = optim::learning_rate(config_.lr_schedule, config_.optimizer.lr, result.step,
                                              config_.training.iterations());
  result.tokens = counts.tokens;
  result.grad_norm = optim::global_norm(device_, store_);
  const std::vector<double> losses = to_host(device_, losses_, "losses");
  result.lm_loss = losses[0];
  result.aux_loss = losses[1];
  result.mtp_loss = losses[2];
  result.loss = losses[0] + losses[1] + config_.model.mtp_loss_coef * losses[2];
  for (double* number :
       {&result.lm_loss, &result.aux_loss, &result.mtp_loss, &result.loss, &result.grad_norm})
    if (std::isnan(*number)) *number = NAN;  // its sign means nothing, and would be printed
  return result;
}

void Trainer::update(const StepResult& result) {
  const device::PhaseScope phase(device_.compute(), device::Phase::Optimizer);
  ++steps_;
  optimizer_->step(result.learning_rate, optim::clip_scale(result.grad_norm, config_.optimizer.clip_grad));
  for (nn::Moe* moe : stage_->moes()) moe->update_bias(config_.router.bias_update_speed);
}

void Trainer::skip() {
  ++steps_;
  reset_loads();
}

void Trainer::set_steps(std::int64_t steps, std::int64_t updates) {
  steps_ = steps;
  optimizer_->set_steps(updates);
}

void Trainer::reset_loads() {
  for (nn::Moe* moe : stage_->moes()) device_.compute().run(kernels::Fill{.y = moe->load(), .value = 0});
}

StepResult Trainer::step(const HostBatch& global) {
  const StepResult result = gradients(global);
  update(result);
  return result;
}

double Trainer::evaluate(const HostBatch& global) {
  const model::Counts counts = model::count(global);
  device_.compute().run(kernels::Fill{.y = losses_, .value = 0});
  for (std::int64_t row = 0; row < global.rows; row += config_.training.micro_batch_size) {
    const HostBatch rows = global.slice(row, std::min(global.rows, row + config_.training.micro_batch_size));
    const model::MicroBatch batch = model::upload(device_, rows, config_.model.has_mtp());
    Tape tape(device_, {.recording = false, .recompute = {}, .observer = nullptr, .replay = true});
    accumulate(tape, stage_->forward(tape, batch, counts).lm, losses_.slice(0, 1));
  }
  return to_host(device_, losses_, "validation loss").at(0);
}

}  // namespace strata::train
