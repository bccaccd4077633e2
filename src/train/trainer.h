// THE training step: micro-batches forward and backward, one norm, one update.
#pragma once
#include <memory>

#include "model/stage.h"
#include "optim/optimizer.h"
#include "train/config.h"

namespace strata::train {

struct StepResult {
  std::int64_t step = 0;                           // counts from 1
  double lm_loss = 0, aux_loss = 0, mtp_loss = 0;  // mtp before its coefficient
  double loss = 0;                                 // what was minimised, before the update
  double grad_norm = 0;                            // before clipping
  double learning_rate = 0;
  std::int64_t tokens = 0;
};

class Trainer {
 public:
  // Builds the model with its initial weights (a function of run.seed). Refers to `config` and `device`.
  Trainer(const RunConfig& config, device::Device& device);

  // One optimiser step on a global batch, in micro-batches of training.micro_batch_size rows.
  StepResult step(const model::HostBatch& global);
  // Gradients of a global batch without the update: they stay in the store. An observer sees every
  // micro-batch.
  StepResult gradients(const model::HostBatch& global, Observer* observer = nullptr);
  // Mean loss per counted token (no auxiliary losses), without gradients.
  double evaluate(const model::HostBatch& global);

  // Expert loads count from zero again.
  void reset_loads();

  device::Device& device() { return device_; }
  ParameterStore& store() { return store_; }
  model::Stage& stage() { return *stage_; }
  // Token losses [rows * seq_length] of the last gradients() call.
  const std::vector<double>& token_losses() const { return token_losses_; }

 private:
  Tape::Options tape_options(Observer* observer) const;
  void micro_batch(const model::HostBatch& rows, const model::Counts& counts, Observer* observer);
  void update(StepResult& result);

  const RunConfig& config_;
  device::Device& device_;
  ParameterStore store_;
  std::unique_ptr<model::Stage> stage_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor losses_;  // [3] lm, aux, mtp: summed over the micro-batches of a step
  std::vector<double> token_losses_;
};

}  // namespace strata::train
