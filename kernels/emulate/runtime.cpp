// kernels/cuda/runtime.h on an emulated device. Copies are checked: their device side must lie in one
// allocation.
#include "kernels/cuda/runtime.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/emulate/machine.h"

namespace strata::cuda {

struct Device::State {
  emulate::Machine machine;
};

struct Event::State {
  device::Event event;
};

namespace {

void check_range(CUstream_st& stream, const void* p, std::int64_t bytes, const char* operation) {
  STRATA_CHECK(stream.machine->memory().holds(p, bytes), operation, " of ", bytes,
               " bytes leaves the device memory it starts in");
}

void submit(CUstream_st& stream, std::function<void()> work) {
  stream.machine->queue().submit(stream.number, std::move(work));
}

}  // namespace

int device_count() { return 1; }

Device::Device(int ordinal) : Device(emulate::open({})) {
  if (ordinal != 0) throw Error(concat("CUDA device ", ordinal, " of 1 emulated device"));
}
Device::Device(std::unique_ptr<State> state) : state_(std::move(state)) {}
Device::~Device() = default;
Device::Device(Device&&) noexcept = default;
std::string Device::name() const { return "emulated"; }

Memory::Memory(Device& device, std::int64_t bytes)
    : device_(&device), bytes_(bytes), data_(device.state().machine.memory().allocate(bytes)) {}
Memory::~Memory() {
  if (data_) device_->state().machine.release(data_);
}

Event::Event(Device&) : state_(std::make_unique<State>()) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;

Stream::Stream(Device& device) {
  emulate::Machine& machine = device.state().machine;
  handle_ = new CUstream_st{&machine, machine.take_stream()};
}
Stream::~Stream() {
  if (handle_) handle_->machine->return_stream(handle_->number);
  delete handle_;
}
Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

void Stream::upload(void* to_device, const void* from_host, std::int64_t bytes) {
  check_range(*handle_, to_device, bytes, "upload");
  submit(*handle_, [=] { std::memcpy(to_device, from_host, bytes); });
}

void Stream::download(void* to_host, const void* from_device, std::int64_t bytes) {
  check_range(*handle_, from_device, bytes, "download");
  submit(*handle_, [=] { std::memcpy(to_host, from_device, bytes); });
}

void Stream::copy(void* to_device, const void* from_device, std::int64_t bytes) {
  check_range(*handle_, to_device, bytes, "copy");
  check_range(*handle_, from_device, bytes, "copy");
  submit(*handle_, [=] { std::memmove(to_device, from_device, bytes); });
}

void Stream::fill(void* on_device, int byte, std::int64_t bytes) {
  check_range(*handle_, on_device, bytes, "fill");
  submit(*handle_, [=] { std::memset(on_device, byte, bytes); });
}

void Stream::record(Event& event) { handle_->machine->queue().record(handle_->number, event.state().event); }
void Stream::wait(Event& event) { handle_->machine->queue().wait(handle_->number, event.state().event); }
void Stream::synchronize() { handle_->machine->synchronize(handle_->number); }

}  // namespace strata::cuda

namespace strata::emulate {

cuda::Device open(const Options& options) {
  return cuda::Device(std::unique_ptr<cuda::Device::State>(new cuda::Device::State{Machine(options)}));
}

}  // namespace strata::emulate
