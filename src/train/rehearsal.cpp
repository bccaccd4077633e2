#include "train/rehearsal.h"

#include "train/checkpointing.h"

namespace strata::train {

Memory memory_of(Trainer& trainer) {
  const device::Allocator& memory = trainer.device().memory();
  Memory m{
      .use = {}, .total = memory.total(), .reserved = memory.reserved(), .snapshot = captured_bytes(trainer)};
  for (int p = 0; p < device::kPurposes; ++p) m.use[p] = memory.use(device::Purpose(p));
  return m;
}

HostBatch zeros(const RunConfig& config, std::int64_t rows) {
  const std::vector<std::int64_t> all(std::size_t(rows * config.training.seq_length), 0);
  return {.rows = rows,
          .length = config.training.seq_length,
          .input_ids = all,
          .labels = all,
          .documents = config.data.reset_attention_mask ? all : std::vector<std::int64_t>()};
}

}  // namespace strata::train
