// What a run will hold, said before it holds it, beside what its hosts have left: about, since of a
// checkpoint's copies not every data-parallel rank has the same share, and hosts are known by their names.
#pragma once
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "device/host_memory.h"
#include "train/config.h"

namespace strata::train {

struct MemoryOutlook {
  std::string planned;                // "memory: planned peaks 104.8 MB, 98.1 MB by pipeline rank"
  std::vector<std::string> too_much;  // one line for each host on which the ranks will not fit
};

// left: what this rank sees before it takes any. Collective; empty but on the first rank.
MemoryOutlook memory_outlook(const RunConfig& config, const comm::Mesh& mesh, const device::HostMemory& left);

}  // namespace strata::train
