// mma.sync on fragments: an exchange of registers, then each lane computes its four elements.
#pragma once
#include <cstdint>

#include "kernels/emulate/shape.h"

namespace strata::emulate {

// c [16,8] += a [16,16] b [16,8]; bf16 factors, two to a register, summed in float by rising k.
void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], Site site);

}  // namespace strata::emulate
