// The same run with another residual connection, to set beside it.
#pragma once
#include "train/config.h"

namespace strata::train {

// At that type's defaults and this model's number of blocks, 8 where it has none; its own type: unchanged.
inline RunConfig with_residual(const RunConfig& config, residual::Type type) {
  constexpr std::int64_t kBlocks = 8;
  RunConfig c = config;
  const residual::Config& own = config.model.residual;
  if (type == own.type) return c;
  c.model.residual = {.type = type};
  if (c.model.residual.has_blocks())
    c.model.residual.num_blocks = own.has_blocks() ? own.num_blocks : kBlocks;
  return c;
}

}  // namespace strata::train
