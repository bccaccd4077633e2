// THE training step: micro-batches forward and backward, one norm, one update.
#pragma once
#include <map>
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

// Evaluation: neither gradients nor moments are allocated, and evaluate() is all that can be called.
enum class Use { Training, Evaluation };

class Trainer {
 public:
  // Builds the model with its initial weights (a function of run.seed). Refers to `config` and `device`.
  Trainer(const RunConfig& config, device::Device& device, Use use = Use::Training);

  // One optimiser step on a global batch, in micro-batches of training.micro_batch_size rows: gradients() and
  // update().
  StepResult step(const HostBatch& global);
  // Gradients of a global batch: they stay in the store. An observer is asked in every micro-batch.
  StepResult gradients(const HostBatch& global, Observer* observer = nullptr);
  // Ends the step that gradients() began: clips, updates the weights and the router biases.
  void update(const StepResult& result);
  // Ends it without an update: weights, moments and router biases stay, expert loads count from zero again.
  void skip();
  // Steps ended so far; the learning rate goes by them, Adam's bias correction by updates alone.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps, std::int64_t updates);
  // Mean loss per counted token (no auxiliary losses), without gradients.
  double evaluate(const HostBatch& global);

  // Bytes that the forward pass of a micro-batch keeps for backward, by op.
  std::map<std::string, std::int64_t> kept_for_backward(const HostBatch& rows);

  // Expert loads count from zero again.
  void reset_loads();

  device::Device& device() { return device_; }
  ParameterStore& store() { return store_; }
  model::Stage& stage() { return *stage_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  // Token losses [rows * seq_length] of the last gradients() call whose observer wanted "token_loss".
  const std::vector<double>& token_losses() const { return token_losses_; }

 private:
  Tape::Options tape_options(Observer* observer) const;
  model::Losses forward(Tape& tape, const model::MicroBatch& batch, const model::Counts& counts);
  void micro_batch(const HostBatch& rows, const model::Counts& counts, Observer* observer);

  const RunConfig& config_;
  device::Device& device_;
  ParameterStore store_;
  std::unique_ptr<model::Stage> stage_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::int64_t steps_ = 0;
  Tensor losses_;  // [3] lm, aux, mtp: summed over the micro-batches of a step
  std::vector<double> token_losses_;
};

}  // namespace strata::train
