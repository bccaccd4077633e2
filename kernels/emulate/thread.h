// What the emulator knows of one CUDA thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/emulate/fiber.h"
#include "kernels/emulate/shape.h"

namespace strata::emulate {

class Block;

// A gathering of the lanes of one mask at one place, and what each lane brought.
struct Meeting {
  static constexpr std::size_t kSlotBytes = 64;

  bool idle() const { return arrived == 0 && readers == 0; }

  unsigned mask = 0;
  unsigned arrived = 0;  // lanes that wait for the others
  int readers = 0;       // lanes that have yet to read, once all arrived
  Site site;
  struct alignas(16) Slot {
    std::array<std::byte, kSlotBytes> bytes;
  };
  std::array<Slot, kWarpSize> slots;
};

// cp.async of one thread: copies that were issued and have not landed.
struct AsyncCopies {
  struct Copy {
    void* to;
    const void* from;
    int bytes;
    int group;
  };
  std::vector<Copy> pending;
  int group = 0;  // the group being filled
};

enum class State : std::uint8_t { Fresh, Ready, AtBlockBarrier, AtWarpBarrier, Done };

struct Thread {
  int warp() const { return number / kWarpSize; }
  int lane() const { return number % kWarpSize; }

  Block* block = nullptr;
  dim3 index;
  int number = 0;
  State state = State::Fresh;
  Fiber* fiber = nullptr;
  int barriers = 0;            // block barriers passed
  const char* operation = "";  // what it waits at, and where
  Site site;
  Meeting* meeting = nullptr;
  AsyncCopies copies;
};

}  // namespace strata::emulate
