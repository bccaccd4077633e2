// The weights of a model wherever they lie: in one safetensors file, or in the shards that an index
// (model.safetensors.index.json, as transformers writes it) names.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace strata::checkpoint {

inline constexpr const char* kIndexName = "model.safetensors.index.json";

// The index of weights of so many bytes, each in the file named beside it.
std::string weight_index(const std::map<std::string, std::string>& file_of_weight, std::int64_t bytes);

class WeightSet {
 public:
  // PATH: a safetensors file, an index ending in .index.json, or a folder with model.safetensors or
  // model.safetensors.index.json in it. InputError where a shard is missing or malformed, and where index and
  // shards disagree: every weight is in exactly the shard that the index names, and no shard has another.
  explicit WeightSet(const std::string& path);

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;  // sorted
  bool has(const std::string& name) const { return where_.count(name) > 0; }
  const FileTensor& at(const std::string& name) const { return file_of(name).at(name); }
  // The file that holds a weight; InputError if there is none.
  const SafetensorsFile& file_of(const std::string& name) const;
  const std::map<std::string, SafetensorsFile>& files() const { return files_; }  // by file name

 private:
  void open_index(const std::string& index);

  std::string path_;
  std::map<std::string, SafetensorsFile> files_;
  std::map<std::string, std::string> where_;  // weight -> file name
};

}  // namespace strata::checkpoint
