// Sorts the T*K expert choices by expert with a counting sort, stable in (token, k): rows of an expert stay
// in token order, whatever the number of threads.
#include "kernels/cpu/parallel.h"
#include "kernels/jobs.h"

namespace strata::kernels {

void run(CpuStream&, const PlanRouting& job) {
  const std::int64_t slots = job.indices.numel(), E = job.offsets.numel() - 1;
  const std::int32_t* expert = job.indices.as<std::int32_t>();
  std::int32_t *offsets = job.offsets.as<std::int32_t>(), *row_slot = job.row_slot.as<std::int32_t>(),
               *slot_row = job.slot_row.as<std::int32_t>();
  std::fill(offsets, offsets + E + 1, 0);
  for (std::int64_t s = 0; s < slots; ++s) ++offsets[expert[s] + 1];
  for (std::int64_t e = 0; e < E; ++e) offsets[e + 1] += offsets[e];
  // offsets[e] serves as the next free row of e, and is moved back afterwards.
  for (std::int64_t s = 0; s < slots; ++s) {
    const std::int32_t row = offsets[expert[s]]++;
    row_slot[row] = std::int32_t(s);
    slot_row[s] = row;
  }
  for (std::int64_t e = E; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

}  // namespace strata::kernels
