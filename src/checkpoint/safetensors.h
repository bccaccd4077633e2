// safetensors files: an 8-byte little-endian header length, a JSON header, raw little-endian data without
// holes. https://github.com/huggingface/safetensors, README "Format".
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/disk.h"

namespace strata::checkpoint {

struct FileTensor {
  std::string dtype;  // "F64", "F32", "BF16", "F16", "I64", "I32", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // bytes behind the header
  std::int64_t numel() const;
};

// The name of a type in files.
std::string_view file_type(DType type);

class SafetensorsFile {
 public:
  // Reads and checks the header; every malformed file is an InputError that names the file and the fault.
  // Memory stays below a small multiple of the header, which is at most 100 MB and at most the file.
  explicit SafetensorsFile(const std::string& path);

  const std::map<std::string, FileTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return file_->path(); }
  std::int64_t bytes() const { return file_->size(); }
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  const FileTensor& at(const std::string& name) const;  // InputError if it is missing

  // The bytes of one tensor as they lie in the file; `to` must have its size.
  void read(const std::string& name, std::span<std::byte> to) const;
  // Values of a tensor of any floating-point type, converted piece by piece; `to` must have numel() elements.
  void read(const std::string& name, std::span<float> to) const;
  void read(const std::string& name, std::span<double> to) const;
  void read(const std::string& name, std::span<bfloat16> to) const;
  // Values of one tensor; InputError if it is missing or not of a floating-point (integer) type.
  std::vector<double> floats(const std::string& name) const;
  // Elements [from, from + count) of it.
  std::vector<double> floats(const std::string& name, std::int64_t from, std::int64_t count) const;
  std::vector<std::int64_t> integers(const std::string& name) const;

 private:
  template <class To>
  void read_all(const std::string& name, std::span<To> to) const;
  template <class To>
  void read_as(const std::string& name, std::span<To> to, std::int64_t from = 0) const;
  template <class From, class To>
  void read_converted(const FileTensor& t, std::span<To> to, std::int64_t from = 0) const;

  std::shared_ptr<const InputFile> file_;  // stays open: whoever renames or replaces it does not disturb us
  std::int64_t data_begin_ = 0;
  std::map<std::string, FileTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// A tensor in somebody's memory.
struct TensorSource {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // numel * size_of(dtype)
};

// A file's bytes, in name order, made while they are asked for: nothing is copied but the header.
class SafetensorsStream {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;

  // A name used twice, or bytes that are not a tensor's shape and type, are an Error.
  explicit SafetensorsStream(std::vector<TensorSource> tensors,
                             const std::map<std::string, std::string>& metadata = {});
  std::int64_t bytes() const;  // of the whole file
  void write(const Sink& sink) const;

 private:
  std::vector<TensorSource> tensors_;
  std::string header_;  // with its length before it
};

// Collects tensors and writes them in name order; the file appears whole (written aside, then renamed).
class SafetensorsWriter {
 public:
  // dtype: "F64", "F32" or "BF16".
  void add(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
           const std::vector<double>& values);
  void add_integers(const std::string& name, std::vector<std::int64_t> shape,
                    const std::vector<std::int64_t>& values);
  void metadata(const std::string& key, const std::string& value) { metadata_[key] = value; }
  void write(const std::string& path) const;

 private:
  struct Entry {
    DType dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace strata::checkpoint
