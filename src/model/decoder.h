// Text generation, a few tokens at a time: what earlier tokens left behind is kept, not computed again. The
// logits are those of one pass over all tokens, up to rounding.
#pragma once
#include "model/stage.h"

namespace strata::model {

class Decoder {
 public:
  // `stage`: the whole model. Room for `capacity` tokens, prompt included.
  Decoder(const Stage& stage, device::Device& device, std::int64_t capacity)
      : stage_(stage), device_(device), history_(capacity) {}

  // The next tokens of the text -> logits after each of the `last` last of them, [last,V] in Acc. Ids are
  // within the vocabulary.
  Tensor feed(const std::vector<std::int64_t>& ids, std::int64_t last = 1);

  std::int64_t tokens() const { return history_.tokens(); }  // fed so far
  std::int64_t cache_bytes() const { return history_.bytes(); }
  // What attention keeps of a token; convolutions keep a few rows in all.
  static std::int64_t bytes_per_token(const ModelConfig& config, DType compute);

 private:
  const Stage& stage_;
  device::Device& device_;
  nn::History history_;
};

}  // namespace strata::model
