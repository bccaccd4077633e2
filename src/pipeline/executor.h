// Runs a rank's part of a schedule: one tape for each (stage, micro-batch), whose leaves are what came in at
// the cut before the stage and whose seeds are what came back from the cut behind it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/mesh.h"
#include "pipeline/action.h"
#include "pipeline/cut.h"

namespace strata::pipeline {

struct Work {
  const std::vector<HostBatch>& micro_batches;  // of this data-parallel rank; some may have no rows
  model::Counts counts;
  Tape::Options tape = {};
  model::StageOptions stage = {};
  // Called once for each stage and micro-batch of this rank when its losses are known: balance losses, and at
  // the head those of the model (lm and mtp have slot -1 elsewhere).
  std::function<void(const model::Losses&)> on_losses = {};
  // Called before each forward pass of a layer of this rank; -1: before all of a stage's, num_hidden_layers:
  // before the head.
  std::function<void(int layer)> on_layer = {};
  // Called once for each layer of this rank, num_hidden_layers for the head, when the gradients of its
  // parameters are complete: by the schedule, after the last micro-batch's weight gradients.
  std::function<void(int layer)> on_gradients = {};
};

// Sees where the compute stream begins and ends an action of run().
class ActionObserver {
 public:
  virtual ~ActionObserver() = default;
  virtual void before(const Action& action) = 0;
  virtual void after(const Action& action) = 0;
};

class Executor {
 public:
  // stages: those of this rank, in the model's order. All others follow from `ranges`.
  Executor(device::Device& device, comm::Communicator& pipeline, const model::ModelConfig& config,
           DType compute, const std::vector<model::StageRange>& ranges, std::vector<model::Stage*> stages);
  ~Executor();

  const Wires& wires() const { return wires_; }
  // Forward and backward; gradients are added to the parameters'.
  void run(const Schedule& schedule, const Work& work);
  // Forward alone.
  void evaluate(const Work& work);
  // Null: nobody.
  void observe(ActionObserver* observer) { observer_ = observer; }

 private:
  struct Kept;
  struct Visit;
  struct Arrival;
  struct Sent;
  using Key = std::pair<int, int>;  // stage, micro-batch

  model::Stage& stage(int number) const { return *stages_.at(number / pipeline_.size()); }
  int rank_of(int stage) const { return rank_of_stage(stage, pipeline_.size()); }
  bool is_last(int number) const { return number + 1 == wires_.stages(); }
  DType gradient_type(const residual::ItemSpec& item) const;
  std::int64_t tokens(const Work& work, int micro_batch) const;
  int tag(Key cut, bool backward) const;

  void mark(const Action& action, void (ActionObserver::*where)(const Action&));
  void expect(const Work& work, const Action& action);
  std::vector<Tensor> arrived(Key key, bool backward);
  void let_go(int rank, std::size_t position);
  comm::Pending send(const residual::ItemSpec& item, const Tensor& x, int cut, int micro_batch,
                     bool backward);

  void forward(const Work& work, Key key);
  bool is_last_of(const Work& work, Key key) const;
  model::StageOptions stage_options(const Work& work, Key key, const Tape& tape) const;
  void complete(const Work& work, int stage) const;
  residual::State enter(Visit& visit, Key key, bool recording);
  void leave(Visit& visit, Key key, const residual::State& state);
  void backward(const Work& work, Key key, Weights when);
  void take_gradients(Visit& visit, Key key);
  void return_gradients(Visit& visit, Key key);
  void finish();

  device::Device& device_;
  comm::Communicator& pipeline_;
  DType compute_;
  bool with_next_;
  ActionObserver* observer_ = nullptr;
  int layers_;
  std::vector<model::Stage*> stages_;
  Wires wires_;
  std::map<Key, std::unique_ptr<Visit>> visits_;
  std::map<int, std::map<std::string, std::shared_ptr<Kept>>>
      sealed_;                                                     // by micro-batch: what this rank holds
  std::map<std::pair<Key, bool>, std::vector<Arrival>> arrivals_;  // by visit and direction
  std::map<std::pair<Key, bool>, std::size_t> position_;  // of a stage's passes among its rank's actions
  std::vector<Sent> outgoing_;                            // gradients on their way
};

}  // namespace strata::pipeline
