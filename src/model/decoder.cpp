#include "model/decoder.h"

namespace strata::model {

Tensor Decoder::feed(const std::vector<std::int64_t>& ids, std::int64_t last) {
  const std::int64_t count = std::int64_t(ids.size());
  STRATA_CHECK(1 <= last && last <= count, "logits of the last ", last, " of ", count, " tokens");
  MicroBatch batch =
      upload(device_, {.rows = 1, .length = count, .input_ids = ids, .labels = {}, .documents = {}}, false);
  batch.history = &history_;
  // Replay: expert loads, which belong to training, stay as they are.
  Tape tape(device_, {.recording = false, .recompute = {}, .observer = nullptr, .replay = true});
  const Tensor logits = stage_.logits(tape, batch, last);
  history_.advance(count);
  return logits;
}

std::int64_t Decoder::bytes_per_token(const ModelConfig& c, DType compute) {
  const std::int64_t row = c.attention == Attention::Mla
                               ? c.kv_lora_rank + c.qk_rope_head_dim
                               : c.kv_heads() * (c.qk_head_dim() + c.value_head_dim());
  return c.num_hidden_layers * row * size_of(compute);
}

}  // namespace strata::model
