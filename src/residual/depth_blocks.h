// What the retrievals over depth share. Sub-layers 1..L form blocks of S, the last may be short. The state is
// "block/0" = the embedding, "block/1", .. the completed blocks' sums, and "partial", the running block's,
// inside a block.
#pragma once
#include "ops/depth_attend.h"
#include "ops/depth_merge.h"
#include "residual/residual.h"

namespace strata::residual {

class DepthBlocks {
 public:
  struct Options {
    std::int64_t views = 1;
    bool streams = false;  // items are [T,views,D], view r is stream r
    int first_target = 2;  // the slot from which on targets retrieve
  };
  // Adds queries and key norms of the targets first_target .. L+1 that read here.
  DepthBlocks(const Config& config, const Shape& shape, const Options& options, ParameterStore& store);
  // Adds the convolutions of the sources that targets here retrieve from: the completed blocks, and the
  // running one where they merge it. Tap 0 starts at 1, the others at 0, all with noise.
  void add_convolutions(const Config& config, ParameterStore& store);

  // "model.layers.{i}.attn_res", "model.layers.{i}.mlp_res" or "model.out_res".
  std::string prefix(Slot target) const;

  bool opens_block(Slot slot) const { return (slot.number - 1) % size_ == 0; }
  bool closes_block(Slot slot) const { return slot.number % size_ == 0 || slot.number == sublayers_; }
  int block(Slot slot) const { return (slot.number - 1) / size_ + 1; }  // 1..N; N+1 is the head's
  Slot head() const { return {sublayers_ + 1}; }

  State open(const Var& b0) const;
  // Phase 1 of the targets from `next` to its block's last that this tape runs, where it is not done yet.
  void prepare(Tape& tape, State& state, Slot next) const;
  // Phase 2 for `slot`, which has been prepared or is now; tells the observer about weights and gates.
  ops::DepthMerged retrieve(Tape& tape, State& state, Slot slot, const ops::DepthFusion& fusion) const;
  // The running block's sum before `slot` is written; null where the block starts there.
  Var* partial(State& state, Slot slot) const;
  // `sum` is the running block's sum with slot's output in it: the new partial, or, sealed, the next block.
  void settle(State& state, Slot slot, const Var& sum) const;
  // What slot's retrieval made, and at the last target of its phase 1 that too, is not read again before
  // backward. `merged`: what retrieve gave, if it has memory of its own.
  void release(Tape& tape, State& state, Slot slot, const Var* merged) const;

  Boundary boundary(Slot next) const;

 private:
  int last_of_block(Slot slot) const;
  // In incremental decoding convolutions reach back to earlier tokens: retrievals run over the last rows of
  // those too, and their results there, which are of no use, are left out at the end.
  bool reaches_back(const State& state) const { return state.history && reach_ > 0; }
  std::int64_t earlier(const State& state) const;
  Sequences lengthened(const State& state) const;
  const Prepared* find(const State& state, Slot slot) const;
  void observe(Tape& tape, const Prepared& prepared, const ops::DepthMerged& merged) const;

  Options options_;
  std::int64_t width_;
  double eps_;
  int sublayers_, size_, count_;
  int sources_ = 0;                        // the first so many are read by targets here
  std::int64_t reach_ = 0;                 // rows before a token that convolutions see
  std::vector<ops::DepthTarget> targets_;  // by slot number
  std::vector<ops::ConvSet> convs_;        // by source, or none
};

}  // namespace strata::residual
