// What rehearsals of steps share: tokens, a device that does nothing, what was held there.
#pragma once
#include <array>

#include "device/device.h"
#include "tensor/host_batch.h"
#include "train/config.h"

namespace strata::train {

class Trainer;

struct Memory {
  std::array<device::MemoryUse, device::kPurposes> use = {};  // now: before the first step
  device::MemoryUse total = {};
  std::int64_t reserved = 0;  // taken from the system: rounded to size classes, kept for reuse
  std::int64_t snapshot = 0;  // host copies while a checkpoint is saved, beside all else
};

// Of a trainer that has gone through all that is to be known.
Memory memory_of(Trainer& trainer);

// Sequences of one token: what is held and done depends on none.
HostBatch zeros(const RunConfig& config, std::int64_t rows);

constexpr device::DeviceOptions kDry{
    .mode = device::StreamMode::Dry, .guard = false, .fill_nan = false, .seed = 0};

}  // namespace strata::train
