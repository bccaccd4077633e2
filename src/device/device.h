// One rank's device: its memory, its compute stream, and the only door between host and device memory.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "device/memory.h"
#include "device/stream.h"

namespace strata::device {

struct DeviceOptions {
  StreamMode mode = StreamMode::Inline;
  bool guard = false;      // memory is unreachable outside jobs
  bool fill_nan = false;   // fresh memory is 0xFF bytes: NaN in every floating-point format
  std::uint64_t seed = 0;  // of the random order between queued streams
};

class Device {
 public:
  explicit Device(DeviceOptions options = {});
  ~Device();
  Device(const Device&) = delete;

  Stream& compute() { return compute_; }
  Stream make_stream() { return Stream(queue_); }
  Allocator& memory() { return memory_; }
  const DeviceOptions& options() const { return options_; }
  // Nothing runs and no memory is touched; sizes and jobs are counted as in a real run.
  bool dry() const { return options_.mode == StreamMode::Dry; }

  // Copies to the host after everything submitted so far has run (zeros from a dry device). Counted by `why`.
  void read_back(void* to, const void* from, std::int64_t bytes, const std::string& why);
  // Copies `bytes` at `from` now and writes them when the compute stream gets there.
  void upload(void* to, const void* from, std::int64_t bytes);
  const std::map<std::string, std::int64_t>& read_backs() const { return read_backs_; }

 private:
  friend class Storage;
  DeviceOptions options_;
  Allocator memory_;
  JobQueue queue_;
  Stream compute_;
  std::map<std::string, std::int64_t> read_backs_;
};

// Counted device memory; its owner is a std::shared_ptr<Storage>. It can be dropped and filled again later.
class Storage {
 public:
  Storage(Device& device, std::int64_t bytes, Purpose purpose);
  ~Storage() { drop(); }
  Storage(const Storage&) = delete;

  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  bool dropped() const { return data_ == nullptr; }
  void drop();
  void refill();  // memory again, contents undefined

 private:
  Device& device_;
  std::int64_t bytes_;
  Purpose purpose_;
  void* data_ = nullptr;
};

}  // namespace strata::device
