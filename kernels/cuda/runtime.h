// The few calls of the CUDA runtime that strata makes, as values: device, memory, stream, event. There is no
// default stream. Two realisations, chosen at link time: runtime.cpp (CUDA) and ../emulate/runtime.cpp.
// Errors throw Error.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

struct CUstream_st;

namespace strata::cuda {

// CUDA's cudaStream_t; a stream of the emulator in an emulation build.
using StreamHandle = ::CUstream_st*;

// GPUs that can be used; 0 where there is no driver. An emulation build always has one.
int device_count();

// One GPU, and what the calls below share. It must outlive all memory, streams and events on it, and is used
// by the thread that opened it only.
class Device {
 public:
  struct State;

  explicit Device(int ordinal = 0);
  explicit Device(std::unique_ptr<State> state);
  ~Device();
  Device(Device&&) noexcept;

  std::string name() const;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Device memory, aligned to at least 256 bytes; contents undefined. Released after all streams have come to
// rest.
class Memory {
 public:
  Memory(Device& device, std::int64_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept
      : device_(other.device_),
        bytes_(std::exchange(other.bytes_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    return *this;
  }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  Device* device_;
  std::int64_t bytes_;
  void* data_ = nullptr;
};

// A point in a stream. A wait for an event that was never recorded waits for nothing.
class Event {
 public:
  struct State;

  explicit Event(Device& device);
  ~Event();
  Event(Event&&) noexcept;

  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Work in order. Everything but synchronize() returns before the work is done; host memory that is copied
// from or to must stay as it is until then.
class Stream {
 public:
  explicit Stream(Device& device);
  ~Stream();
  Stream(Stream&& other) noexcept;

  StreamHandle handle() const { return handle_; }

  void upload(void* to_device, const void* from_host, std::int64_t bytes);
  void download(void* to_host, const void* from_device, std::int64_t bytes);
  void copy(void* to_device, const void* from_device, std::int64_t bytes);
  void fill(void* on_device, int byte, std::int64_t bytes);

  void record(Event& event);
  // Work after this starts once the newest record of the event is reached.
  void wait(Event& event);
  // Waits for all work so far and throws what went wrong in it.
  void synchronize();

 private:
  StreamHandle handle_ = nullptr;
};

}  // namespace strata::cuda
