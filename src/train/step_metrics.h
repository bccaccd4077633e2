// A closer look at one step, as metrics: expert loads, router biases, retrieval over depth, gates, output
// norms, memory. Looking changes no bit of the training.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "train/gather.h"
#include "train/metrics.h"
#include "train/trainer.h"

namespace strata::train {

// Watches the first micro-batch of Trainer::gradients() and keeps numbers, no tensors of its size:
// for a target, the entropy of its weights over the sources divided by its largest value, log(sources), mean
// over views and tokens; for a target's gate, each stream's mean; for a sub-layer, its output's RMS.
class StepObserver final : public Observer {
 public:
  explicit StepObserver(device::Device& device) : device_(device) {}
  bool wants(const std::string& name) const override;
  void observe(const std::string& name, const Tensor& value) override;
  // Takes in what the ranks of the other stages saw. Every rank calls it.
  void join(const comm::Mesh& mesh);
  void append_to(Metrics& out) const;

 private:
  device::Device& device_;
  std::set<std::string> seen_;
  std::map<int, double> entropies_;           // by target; none where there is one source only
  std::map<int, std::vector<double>> gates_;  // by target
  std::map<int, double> outputs_;             // by sub-layer
};

// Loads of this step and the biases that made them: between gradients() and update() or skip(). Per MoE
// layer, multi-token prediction's too, and the worst of all; where experts are spread over ranks and the step
// was observed, also of the rows that came to each rank's. Every rank calls it.
void append_expert_metrics(Metrics& out, Trainer& trainer, const RunConfig& config);
// Most bytes in use so far, in all and by purpose, on the rank that needed most of each. Every rank calls it.
void append_memory_metrics(Metrics& out, device::Device& device, comm::Communicator& ranks);

}  // namespace strata::train
