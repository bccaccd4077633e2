// Runs all blocks of a launch, spread over OpenMP threads; one block stays on one thread.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "kernels/emulate/block.h"

namespace strata::emulate {

class Grid {
 public:
  // The schedule orders the blocks and the threads within each. After an error the remaining blocks are left
  // out; what is thrown is the error of the earliest block in the order.
  void run(const GridShape& shape, const Schedule& schedule, const std::function<void()>& body);

 private:
  std::vector<std::unique_ptr<Block>> workers_;  // by OpenMP thread; they keep their stacks between launches
};

}  // namespace strata::emulate
