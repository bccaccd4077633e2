// THE training step: micro-batches forward and backward, one norm, one update. Every rank of the mesh makes
// the same calls with the same global batch and gets the same numbers.
#pragma once
#include <map>
#include <memory>

#include "comm/mesh.h"
#include "optim/optimizer.h"
#include "pipeline/executor.h"
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
  // Builds this rank's stages with their initial weights (a function of run.seed). Refers to `config`,
  // `device` and `mesh`, which has the shape that config.parallel says.
  Trainer(const RunConfig& config, device::Device& device, const comm::Mesh& mesh, Use use = Use::Training);
  // Alone, on a mesh of one rank.
  Trainer(const RunConfig& config, device::Device& device, Use use = Use::Training);
  ~Trainer();

  // One optimiser step on a global batch, in micro-batches of training.micro_batch_size rows: gradients() and
  // update().
  StepResult step(const HostBatch& global);
  // Gradients of a global batch: they stay in the store, summed over ranks, as do expert loads: update(),
  // skip() or reset_loads() comes before the next call. An observer is asked in every micro-batch.
  StepResult gradients(const HostBatch& global, Observer* observer = nullptr);
  // After gradients(), with a distributed optimizer: every rank has all sums, not only those of its part.
  void gather_gradients();
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
  // Sees the actions of gradients(); null: nobody.
  void observe(pipeline::ActionObserver* observer) { executor_->observe(observer); }

  device::Device& device() { return device_; }
  const comm::Mesh& mesh() const { return mesh_; }
  const RunConfig& config() const { return config_; }
  const optim::ReductionGroups& groups() const { return groups_; }
  const pipeline::Wires& wires() const { return executor_->wires(); }
  // This rank's, in the model's order.
  std::vector<model::StageRange> stages() const;
  // Its values are there, whatever is still on its way after update().
  ParameterStore& store();
  // This rank's MoE layers: the layer's number, multi-token prediction's last.
  const std::map<int, nn::Moe*>& moes() const { return moes_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  // Token losses of the last gradients() call whose observer wanted "token_loss": of this rank's
  // micro-batches in order, if it has the head.
  const std::vector<double>& token_losses() const { return token_losses_; }

  // Tokens of this rank alone for each expert, of the last gradients() call; by MoE layer. None without an
  // observer, or where all experts are here.
  const std::map<int, std::vector<double>>& own_loads() const { return own_loads_; }

  // What all ranks do for so many micro-batches on each.
  const pipeline::Schedule& schedule(int micro_batches);
  // Norm of all gradients at hand, after they were summed. Every rank calls it.
  double grad_norm() { return optim::global_norm(device_, store_, groups_); }
  // Micro-batch i of this rank is micro-batch i * data ranks + data rank of the global batch, or has no rows.
  std::vector<HostBatch> micro_batches(const HostBatch& global) const;

 private:
  struct Alone;  // a mesh of one rank
  Trainer(const RunConfig& config, device::Device& device, std::unique_ptr<Alone> alone, Use use);
  void add_stages();
  void find_holders();
  Tape::Options tape_options(Observer* observer) const;
  void add_losses(const model::Losses& losses, bool with_tokens);
  void begin_sums(int layer);
  void keep_own_loads();
  StepResult reduce(const HostBatch& global);

  std::unique_ptr<Alone> alone_;
  const RunConfig& config_;
  device::Device& device_;
  const comm::Mesh& mesh_;
  ParameterStore store_;
  std::vector<std::unique_ptr<model::Stage>> stages_;
  std::map<int, nn::Moe*> moes_;
  std::vector<std::unique_ptr<comm::Communicator>> holders_;
  optim::ReductionGroups groups_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<pipeline::Executor> executor_;
  std::map<int, pipeline::Schedule> schedules_;  // by the number of micro-batches
  std::int64_t steps_ = 0;
  Tensor losses_;  // [3] lm, aux, mtp: summed over the micro-batches of a step
  std::vector<double> token_losses_;
  std::map<int, std::vector<double>> own_loads_;
};

}  // namespace strata::train
