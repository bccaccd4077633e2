// Who sums which bucket, and the sums of a step. With the distributed optimizer (ZeRO-1; Rajbhandari et al.,
// 2020) each rank of a group gets the sum of its own part of the bucket only.
#pragma once
#include <map>
#include <vector>

#include "comm/communicator.h"
#include "optim/pieces.h"

namespace strata::optim {

// Null: alone.
struct ReductionGroups {
  comm::Communicator* data = nullptr;         // sums dense buckets
  comm::Communicator* expert_data = nullptr;  // sums expert buckets
  comm::Communicator* all = nullptr;          // the world: the norm
  // By Bucket::holders: the same data rank on the pipeline ranks that have these parameters too.
  std::map<std::vector<int>, comm::Communicator*> holders = {};
  int pipeline_rank = 0;

  // Of a bucket: its group (null where this rank is alone), and its members.
  comm::Communicator* of(const Bucket& bucket) const { return of(bucket.group); }
  comm::Communicator* of(ReductionGroup kind) const;
  int size(const Bucket& bucket) const;
  int rank(const Bucket& bucket) const;
  // How the store has to pad its buckets.
  Shards shards() const;

  // The part whose gradient is summed here and whose moments lie here: everything, unless distributed.
  Part held(const Bucket& bucket, bool distributed) const;
  // The part that this rank alone, of the whole world, answers for: in the norm and in files.
  Part owned(const Bucket& bucket) const;
  // Whether of all ranks that have a parameter whole this is the one that speaks for it.
  bool speaks_for(const Parameter& parameter) const;
};

// "NAME and 11 more": for whoever waits for it.
std::string label(const Bucket& bucket);

// What messages of a bucket are called is one of these and its label.
constexpr char kGradientOf[] = "gradient of ", kWeightsOf[] = "weights of ";

// Sums the gradients in the store over data ranks, then over holders, who all get the same bits. Distributed,
// the rest of a bucket's gradient is undefined afterwards.
class GradientReduction {
 public:
  // Throws Error on every holder if they lay out their common buckets differently.
  GradientReduction(device::Device& device, ParameterStore& store, const ReductionGroups& groups,
                    bool distributed);

  // The gradient of bucket i is complete on this rank. All members of its group begin in the same order.
  void begin(std::size_t i);
  // Begins what was not begun; the compute stream goes on when all sums are there.
  void finish();

 private:
  void check_holders() const;

  device::Device& device_;
  ParameterStore& store_;
  ReductionGroups groups_;
  bool distributed_;
  std::vector<std::size_t> shared_;  // buckets with holders, in the same order on all of them
  std::vector<bool> begun_;          // by bucket
  std::vector<comm::Pending> pending_;
};

// sqrt of the sum of squares of every gradient of the model after the reduction, each counted once; summed in
// float64. The same bits on every rank, distributed or not.
double global_norm(device::Device& device, ParameterStore& store, const ReductionGroups& groups = {});

}  // namespace strata::optim
