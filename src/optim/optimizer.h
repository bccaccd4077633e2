// AdamW and SGD over flat parameter buckets. Distributed (ZeRO-1), a rank has the moments of its part of each
// bucket, updates that part, and the parts of the values are gathered while the next step begins.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "optim/config.h"
#include "optim/reduction.h"

namespace strata::optim {

// min(1, clip / (norm + 1e-6)); 1 if clip is 0.
double clip_scale(double norm, double clip);

// A piece of a tensor in a checkpoint.
struct StatePiece : Piece {
  Tensor values;  // [count]
};

// The masters that this rank answers for: those of all ranks cover each weight of the model once.
std::vector<StatePiece> weight_pieces(ParameterStore& store, const ReductionGroups& groups);

// What this optimizer keeps of each weight, by the first part of its names: "exp_avg.", ...
std::vector<std::string> moment_prefixes(const OptimizerSection& config);

class Optimizer {
 public:
  // Moments are zero, in the accumulator type.
  Optimizer(const OptimizerSection& config, device::Device& device, ParameterStore& store,
            const ReductionGroups& groups = {});
  // Other ranks may still wait for what this one gives to a gather: it ends first, unless an error unwinds.
  // What fails then is lost: who wants to know waits for values before.
  ~Optimizer();

  // Sums the gradients in the store over ranks; see GradientReduction. reduction() begins with single buckets
  // earlier.
  void reduce_gradients() { reduction_.finish(); }
  GradientReduction& reduction() { return reduction_; }

  // One update with the gradients in the store times `grad_scale`. Counts the steps itself (bias correction).
  // Distributed, the values of a bucket are there again once they were waited for.
  void step(double lr, double grad_scale);
  std::int64_t steps() const { return steps_; }
  // Before values of `layer` (-1: of none) are read, after step(). A bucket of several layers counts as its
  // lowest: layers are waited for upwards.
  void wait_for_values(int layer);
  void wait_for_values();  // all

  // Shows every weight of this rank with its whole master, which is gathered for the moment where ranks have
  // parts of it. Every rank calls it.
  void visit_masters(const std::function<void(const std::string& name, const Tensor& master)>& visit);

  // What a checkpoint keeps besides the weights: each moment by name, "exp_avg.WEIGHT" and
  // "exp_avg_sq.WEIGHT" (AdamW) or "momentum_buffer.WEIGHT" (SGD with momentum), shaped like the weight.
  // An error where this rank holds parts.
  std::map<std::string, Tensor> state() const;
  // The parts of moments that this rank answers for: those of all ranks cover each moment once.
  std::vector<StatePiece> pieces() const;

  // What this rank holds of each moment.
  std::vector<Piece> held() const;
  // Elements [offset, offset + values.size()) of a moment; this rank keeps what lies in its part: nothing of
  // another rank's parameter.
  void set_moment(const std::string& name, const std::vector<double>& values, std::int64_t offset = 0);
  // The count that goes with moments from a checkpoint.
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  struct Moment {
    std::string prefix;  // of its names
    Tensor held;         // [part.count()]
  };
  struct Moments {
    Part part;                    // of the bucket
    std::vector<Moment> tensors;  // AdamW: m and v; SGD: its velocity, or none
  };
  // Null: this rank updates the whole bucket.
  comm::Communicator* sharers(const Bucket& bucket) const;
  void update(std::size_t bucket, double lr, double grad_scale);

  OptimizerSection config_;
  device::Device& device_;
  ParameterStore& store_;
  ReductionGroups groups_;
  GradientReduction reduction_;
  std::vector<Moments> moments_;        // one per bucket
  std::vector<comm::Pending> gathers_;  // of values, by bucket
  std::int64_t steps_ = 0;
};

}  // namespace strata::optim
