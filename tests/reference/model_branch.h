// The branches of a Transformer block as functions of normalised hidden states.
#pragma once

#include "reference/model.h"
#include "reference/router.h"

namespace strata::reference {

/// x [B·T, D] (already normalised) -> [B·T, D]; `prefix` is "model.layers.{i}.self_attn.".
Array attention_branch(const ModelSpec& spec, const Weights& weights, const std::string& prefix,
                       const Array& x, int64_t length, const Ids& doc_ids);

struct MlpBranch {
  Array out;            ///< [B·T, D]
  RouterResult routed;  ///< empty loads for a dense MLP
};

/// `prefix` is "model.layers.{i}.mlp."; `is_moe` says which of the two it is.
MlpBranch mlp_branch(const ModelSpec& spec, const Weights& weights, const std::string& prefix, bool is_moe,
                     const Array& x, int64_t length);

}  // namespace strata::reference
