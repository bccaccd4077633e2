// What mHC and its hybrid share: the mixing parameters of a sub-layer and the read-out of the streams at the
// head.
#pragma once
#include "ops/hyper.h"
#include "residual/residual.h"

namespace strata::residual {

class HyperStreams {
 public:
  // Adds the mixing parameters of the sub-layers that read here, and of the read-out with the head.
  HyperStreams(const Config& config, const Shape& shape, ParameterStore& store);

  std::int64_t count() const { return config_.streams; }
  // [T,n,D] -> coefficients of `slot`, see ops::hyper_coef.
  Var coefficients(Tape& tape, const Var& x, Slot slot) const;
  // [T,n,D] -> [T,D]: head mix, mean or sum.
  Var read_out(Tape& tape, const Var& x) const;

 private:
  ops::HyperParameters add_slot(Slot slot, const Shape& shape, ParameterStore& store) const;

  Config config_;
  std::vector<ops::HyperParameters> slots_;                        // of sub-layer i+1
  Parameter *phi_ = nullptr, *alpha_ = nullptr, *bias_ = nullptr;  // head mix
};

}  // namespace strata::residual
