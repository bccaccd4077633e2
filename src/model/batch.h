// The integer counts of a batch of token sequences, and a micro-batch of it on the device.
#pragma once
#include <cstdint>
#include <vector>

#include "nn/context.h"
#include "tensor/host_batch.h"
#include "tensor/tensor.h"

namespace strata::model {

// What multi-token prediction predicts from: the row's next token (0 after the last), and the label after the
// next, counted only where both labels are and both tokens are of one document.
struct NextTokens {
  std::vector<std::int64_t> ids, labels;
};
NextTokens next_tokens(const HostBatch& batch);

// The only divisors of the loss: of the whole global batch.
struct Counts {
  std::int64_t labels = 0, next_labels = 0, tokens = 0, sequences = 0;
};
Counts count(const HostBatch& batch);

struct MicroBatch {
  std::int64_t rows = 0, length = 0;
  Tensor ids, labels, next_ids, next_labels;  // [T] int32; next_* undefined without multi-token prediction
  Tensor documents;                           // [T] int32, or undefined
  nn::History* history = nullptr;             // of the tokens before these, in incremental decoding
  int number = 0;                             // among this rank's micro-batches of a step

  nn::Context context(const Counts& counts) const;
};
MicroBatch upload(device::Device& device, const HostBatch& batch, bool with_next);

}  // namespace strata::model
