#include "kernels/emulate/mma.h"

#include "base/bfloat16.h"
#include "kernels/emulate/exchange.h"

namespace strata::emulate {
namespace {

struct Registers {
  std::uint32_t a[4], b[2];
};

float half(std::uint32_t pair, int upper) {
  bfloat16 value;
  value.bits = std::uint16_t(pair >> 16 * upper);
  return value;
}

// Row r of A lies with lanes 4 (r % 8) to 4 (r % 8) + 3: register 0 or 1 for k < 8, 2 or 3 above.
float element_a(const Exchange<Registers>& lanes, int row, int k) {
  return half(lanes[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2);
}
float element_b(const Exchange<Registers>& lanes, int k, int column) {
  return half(lanes[column * 4 + k % 8 / 2].b[k / 8], k % 2);
}

}  // namespace

void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Site site) {
  const Exchange<Registers> lanes(0xffffffffu, {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}}, "mma.sync", site);
  const int group = thread().lane() / 4, pair = thread().lane() % 4;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k)
      c[i] += element_a(lanes, group + i / 2 * 8, k) * element_b(lanes, k, 2 * pair + i % 2);
}

}  // namespace strata::emulate
