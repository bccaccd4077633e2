// One decoder layer: attention and a feed-forward part, each behind its own norm. It does not know where its
// input comes from or where its output goes: that is the residual module's.
#pragma once
#include <memory>

#include "model/config.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe.h"
#include "residual/residual.h"

namespace strata::model {

class Block {
 public:
  // Adds the parameters "model.layers.{layer}." to the store.
  // experts: the ranks over which the experts are spread; null: they are all here.
  Block(const ModelConfig& config, std::int64_t layer, ParameterStore& store,
        comm::Communicator* experts = nullptr);

  residual::Norm attention_norm() const { return attention_norm_; }
  residual::Norm feed_forward_norm() const { return feed_forward_norm_; }

  // x [T,D], already normalised.
  Var attention(Tape& tape, const Var& x, const nn::Context& context) const;
  // The balance losses of a MoE layer go to `aux`; a dense layer leaves it.
  Var feed_forward(Tape& tape, const Var& x, const nn::Context& context, std::vector<Var>& aux) const;

  nn::Moe* moe() const { return moe_.get(); }  // null in a dense layer

 private:
  residual::Norm attention_norm_, feed_forward_norm_;
  std::unique_ptr<nn::Attention> attention_;
  std::unique_ptr<nn::Mlp> mlp_;
  std::unique_ptr<nn::Moe> moe_;
};

}  // namespace strata::model
