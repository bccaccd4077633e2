// safetensors files: an 8-byte little-endian header length, a JSON header, raw little-endian data without
// holes. https://github.com/huggingface/safetensors, README "Format".
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace strata::checkpoint {

struct FileTensor {
  std::string dtype;  // "F64", "F32", "BF16", "F16", "I64", "I32", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // bytes behind the header
  std::int64_t numel() const;
};

class SafetensorsFile {
 public:
  // Reads and checks the header; every malformed file is an InputError that names the file and the fault.
  explicit SafetensorsFile(const std::string& path);

  const std::map<std::string, FileTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  // Values of one tensor; InputError if it is missing or not of a floating-point (integer) type.
  std::vector<double> floats(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name) const;
  const FileTensor& at(const std::string& name) const;

 private:
  std::vector<char> bytes(const FileTensor& t) const;
  std::string path_;
  std::int64_t data_begin_ = 0;
  std::map<std::string, FileTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Collects tensors and writes them in name order; the file appears whole (written aside, then renamed).
class SafetensorsWriter {
 public:
  void add(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
           const std::vector<double>& values);
  void add_integers(const std::string& name, std::vector<std::int64_t> shape,
                    const std::vector<std::int64_t>& values);
  void metadata(const std::string& key, const std::string& value) { metadata_[key] = value; }
  void write(const std::string& path) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::vector<char> bytes;
  };
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace strata::checkpoint
