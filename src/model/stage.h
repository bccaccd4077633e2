// Layers [first, last) of the model, with the embedding before and the head behind where the stage has them.
// The whole model is one stage; it does not know how it is cut.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "model/batch.h"
#include "model/block.h"

namespace strata::model {

struct StageRange {
  int first = 0, last = 0;  // layers
  bool embedding = true, head = true;
};

struct StageOptions {
  bool recompute_layers = false;  // keep only what enters a layer, run it again in backward
  // Called before forward enters a layer, and with num_hidden_layers before the head.
  std::function<void(int layer)> enters_layer = {};
  // Called when backward has left a layer, and with num_hidden_layers when it has left the head.
  std::function<void(int layer)> left_layer = {};
};

// Scalars [1] in Acc, already divided by the counts of the global batch; seeding each with its coefficient is
// backward. On a tape that records, lm, mtp and token_loss are computed there (ops/head_loss.h).
struct Losses {
  Var lm, mtp;           // mtp: before its coefficient; slot -1 without multi-token prediction
  std::vector<Var> aux;  // balance losses, one per MoE layer
  Tensor token_loss;     // [T]
};

class Stage {
 public:
  // Adds its parameters to the store. experts: the ranks over which its experts are spread; null: they are
  // all here.
  Stage(const ModelConfig& config, StageRange range, ParameterStore& store,
        comm::Communicator* experts = nullptr);

  // After the store is: state that is not a parameter (expert loads).
  void allocate(device::Device& device);

  // Forward, in three parts. First stage: ids -> state before layer 0.
  residual::State open(Tape& tape, const MicroBatch& batch) const;
  // The layers of this stage; balance losses are appended to `aux`. `state.items` are what boundary() of the
  // first layer's slot names.
  void layers(Tape& tape, residual::State& state, const MicroBatch& batch, const Counts& counts,
              StageOptions options, std::vector<Var>& aux) const;
  // Last stage: state after the last layer -> losses.
  Losses close(Tape& tape, residual::State& state, const MicroBatch& batch, const Counts& counts,
               StageOptions options, std::vector<Var> aux) const;
  // All three, for a stage that is the whole model.
  Losses forward(Tape& tape, const MicroBatch& batch, const Counts& counts, StageOptions options = {}) const;

  // Forward without labels, on a tape that does not record and a stage that is the whole model: logits of the
  // `last` last tokens, [last,V] in Acc.
  Tensor logits(Tape& tape, const MicroBatch& batch, std::int64_t last) const;

  // Seeds the losses with their coefficients and runs backward.
  void backward(Tape& tape, const Losses& losses, Weights when = Weights::Now) const;

  const StageRange& range() const { return range_; }
  const residual::Residual& residual() const { return *residual_; }
  std::vector<nn::Moe*> moes() const;  // in layer order, multi-token prediction's last

 private:
  void add_head(ParameterStore& store, comm::Communicator* experts);
  void layer(Tape& tape, residual::State& state, int index, const nn::Context& context,
             std::vector<Var>& aux) const;
  void recomputed_layer(Tape& tape, residual::State& state, int index, const nn::Context& context,
                        std::vector<Var>& aux) const;
  Var next_token_loss(Tape& tape, const Var& top, const MicroBatch& batch, const Counts& counts,
                      std::vector<Var>& aux) const;
  residual::SlotRange slots() const { return {{2 * range_.first + 1}, {2 * range_.last}}; }

  ModelConfig config_;
  StageRange range_;
  Parameter* embedding_ = nullptr;
  std::unique_ptr<residual::Residual> residual_;
  std::deque<Block> blocks_;
  Parameter* norm_ = nullptr;
  Parameter* head_ = nullptr;

  struct NextTokenModule {
    Parameter *embedding_norm, *hidden_norm, *projection, *head_norm;
    std::unique_ptr<Block> block;
  };
  std::unique_ptr<NextTokenModule> next_;
};

// Adds the parameters of the whole model to a store that is not to be allocated: to name and count them.
void add_parameters(const ModelConfig& config, ParameterStore& store);

}  // namespace strata::model
