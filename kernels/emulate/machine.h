// An emulated device: memory, streams that may lie about when they run, and the engine that runs kernels.
// Tests open one by emulate::open(options) and use it as any cuda::Device.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "device/queue.h"
#include "kernels/cuda/runtime.h"
#include "kernels/emulate/grid.h"
#include "kernels/emulate/memory.h"

namespace strata::emulate {

struct Options {
  Schedule schedule = {};         // of threads and blocks; each launch draws from the seed anew
  bool queued = false;            // streams run when somebody synchronises, in a random order between streams
  std::uint64_t stream_seed = 0;  // of that order
  bool guard = false;             // the host cannot touch device memory
  std::int64_t memory_bytes = std::int64_t(4) << 30;
};

class Machine {
 public:
  explicit Machine(const Options& options);

  Memory& memory() { return memory_; }
  device::JobQueue& queue() { return queue_; }

  int take_stream();
  void return_stream(int stream) { idle_streams_.push_back(stream); }
  void launch(int stream, const GridShape& shape, std::function<void()> body);
  // Runs what `stream` was given, and what the random order took along. Throws what a job threw.
  void synchronize(int stream);
  // Waits for all streams, then releases. An error of a job is kept for the next synchronize.
  void release(void* p) noexcept;

 private:
  Schedule schedule_;
  Memory memory_;
  device::JobQueue queue_;
  Grid grid_;
  std::uint64_t launches_ = 0;
  std::vector<int> idle_streams_;
  std::exception_ptr late_error_;
};

cuda::Device open(const Options& options);

}  // namespace strata::emulate

// What CUDA leaves opaque.
struct CUstream_st {
  strata::emulate::Machine* machine;
  int number;
};
