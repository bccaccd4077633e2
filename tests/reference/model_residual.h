// The residual connection of a model as a small state machine: read the input of sub-layer l, write its
// output.
#pragma once

#include <memory>

#include "reference/model.h"

namespace strata::reference {

class ResidualState {
 public:
  virtual ~ResidualState() = default;

  /// h_l [B·T, D] of sub-layer l, 1 <= l <= L. Called once per sub-layer, in order.
  virtual Array read(int64_t l) = 0;

  /// Takes y = f_l(h_l) [B·T, D].
  virtual void write(int64_t l, const Array& y) = 0;

  /// What the final norm reads, [B·T, D]. Called once, after all writes.
  virtual Array top() = 0;

  std::map<int64_t, Array> depth_weights;  ///< as in ModelOutput
  std::map<int64_t, Array> gates;
};

/// State before sub-layer 1, with h_1 [B·T, D] the embedded tokens. Keeps references to all arguments but
/// `h1`.
std::unique_ptr<ResidualState> make_residual_state(const ModelSpec& spec, const Weights& weights,
                                                   const ModelBatch& batch, const Array& h1);

/// Block of sub-layer l, counted from 1, when L sub-layers are cut in blocks of ceil(L / num_blocks).
int64_t block_of(int64_t l, int64_t sub_layers, int64_t num_blocks);

}  // namespace strata::reference
