// AttnRes and MSAR: the state is block sums of one stream, a sub-layer reads a retrieval over them. They
// differ in the views of a source and in how these become one.
#pragma once
#include "residual/depth_blocks.h"

namespace strata::residual {

class DepthResidual : public Residual {
 public:
  State open(Tape& tape, const Var& embedding) override;
  void prepare(Tape& tape, State& state, Slot next) override { blocks_.prepare(tape, state, next); }
  Reading read(Tape& tape, State& state, Slot slot, const Norm& norm) override;
  void write(Tape& tape, State& state, const Reading& reading, const Var& update) override;
  Var close(Tape& tape, State& state) override;
  Boundary boundary(Slot next) const override { return blocks_.boundary(next); }

 protected:
  DepthResidual(const Config& config, const Shape& shape, std::int64_t views, ParameterStore& store)
      : blocks_(config, shape, {.views = views, .streams = false, .first_target = 2}, store) {}
  virtual ops::DepthFusion fusion(Slot target) const = 0;

  DepthBlocks blocks_;
};

}  // namespace strata::residual
