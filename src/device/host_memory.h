// How much memory the kernel still lets this process have. Pages are taken when they are touched: beyond that
// the kernel kills a process without a word.
#pragma once
#include <cstdint>
#include <string>

namespace strata::device {

struct HostMemory {
  std::int64_t bytes = 0;
  std::string limit;  // the file that says so
};

// The least of what the host has left and what is left in each control group above this process, version 1
// or 2, unused file cache counted as free. 0 bytes and no file where nothing says. `root` stands before every
// path.
HostMemory host_memory_left(const std::string& root = "");

}  // namespace strata::device
