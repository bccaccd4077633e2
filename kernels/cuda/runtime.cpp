// kernels/cuda/runtime.h on NVIDIA's runtime library.
#include "kernels/cuda/runtime.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "base/error.h"

#define STRATA_CUDA_CALL(call) check_call(call, #call)

namespace strata::cuda {
namespace {

void check_call(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw Error(concat(call, ": ", cudaGetErrorString(status)));
}

}  // namespace

struct Device::State {
  int ordinal;
};

struct Event::State {
  cudaEvent_t event = nullptr;
};

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

Device::Device(int ordinal) : Device(std::make_unique<State>(State{ordinal})) {
  STRATA_CUDA_CALL(cudaSetDevice(ordinal));
}
Device::Device(std::unique_ptr<State> state) : state_(std::move(state)) {}
Device::~Device() = default;
Device::Device(Device&&) noexcept = default;

std::string Device::name() const {
  cudaDeviceProp properties{};
  STRATA_CUDA_CALL(cudaGetDeviceProperties(&properties, state_->ordinal));
  return properties.name;
}

Memory::Memory(Device& device, std::int64_t bytes) : device_(&device), bytes_(bytes) {
  STRATA_CUDA_CALL(cudaMalloc(&data_, std::size_t(bytes)));
}
Memory::~Memory() { cudaFree(data_); }

Event::Event(Device&) : state_(std::make_unique<State>()) {
  STRATA_CUDA_CALL(cudaEventCreateWithFlags(&state_->event, cudaEventDisableTiming));
}
Event::~Event() {
  if (state_) cudaEventDestroy(state_->event);
}
Event::Event(Event&&) noexcept = default;

Stream::Stream(Device&) { STRATA_CUDA_CALL(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking)); }
Stream::~Stream() {
  if (handle_) cudaStreamDestroy(handle_);
}
Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

void Stream::upload(void* to_device, const void* from_host, std::int64_t bytes) {
  STRATA_CUDA_CALL(
      cudaMemcpyAsync(to_device, from_host, std::size_t(bytes), cudaMemcpyHostToDevice, handle_));
}

void Stream::download(void* to_host, const void* from_device, std::int64_t bytes) {
  STRATA_CUDA_CALL(
      cudaMemcpyAsync(to_host, from_device, std::size_t(bytes), cudaMemcpyDeviceToHost, handle_));
}

void Stream::copy(void* to_device, const void* from_device, std::int64_t bytes) {
  STRATA_CUDA_CALL(
      cudaMemcpyAsync(to_device, from_device, std::size_t(bytes), cudaMemcpyDeviceToDevice, handle_));
}

void Stream::fill(void* on_device, int byte, std::int64_t bytes) {
  STRATA_CUDA_CALL(cudaMemsetAsync(on_device, byte, std::size_t(bytes), handle_));
}

void Stream::record(Event& event) { STRATA_CUDA_CALL(cudaEventRecord(event.state().event, handle_)); }
void Stream::wait(Event& event) { STRATA_CUDA_CALL(cudaStreamWaitEvent(handle_, event.state().event, 0)); }
void Stream::synchronize() { STRATA_CUDA_CALL(cudaStreamSynchronize(handle_)); }

}  // namespace strata::cuda
