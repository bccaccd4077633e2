// The stream that CUDA jobs run on, and the device memory that they work in.
#pragma once
#include <cstddef>
#include <optional>

#include "device/stream.h"
#include "kernels/cuda/runtime.h"

namespace strata::cuda {

// Runs jobs in order on a GPU: run(CudaStream&, job) is found in the job's namespace, as for the CPU. It
// returns before the job is done; what a job names must live until then. One host thread uses it.
class CudaStream {
 public:
  explicit CudaStream(Device& device) : device_(&device), stream_(device) {}

  template <class Job>
  void run(const Job& job) {
    device::run_on(*this, job);
  }
  Stream& queue() { return stream_; }
  StreamHandle handle() const { return stream_.handle(); }
  void synchronize() { stream_.synchronize(); }

  // Working memory of the job that is launched now. The next job gets the same bytes, which is safe because
  // its kernels come later in this stream; memory that is too small is released once the stream has come to
  // rest. Contents undefined.
  std::byte* scratch(std::int64_t bytes) {
    if (!scratch_ || scratch_->bytes() < bytes) {
      scratch_.reset();
      scratch_.emplace(*device_, bytes);
    }
    return scratch_->as<std::byte>();
  }

 private:
  Device* device_;
  std::optional<Memory> scratch_;
  Stream stream_;
};

// Hands out pieces of scratch memory, aligned to 256 bytes; without a base it only adds up their sizes.
class ScratchPieces {
 public:
  explicit ScratchPieces(std::byte* base = nullptr) : base_(base) {}
  template <class T>
  T* take(std::int64_t count) {
    std::byte* piece = base_ ? base_ + used_ : nullptr;
    used_ += (count * std::int64_t(sizeof(T)) + 255) / 256 * 256;
    return reinterpret_cast<T*>(piece);
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

// Calls take(pieces) twice: to measure, and to hand out.
template <class F>
void lay_out(CudaStream& stream, F&& take) {
  ScratchPieces sizes;
  take(sizes);
  ScratchPieces pieces(stream.scratch(sizes.used()));
  take(pieces);
}

}  // namespace strata::cuda
