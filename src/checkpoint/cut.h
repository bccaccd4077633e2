// Tensors that several safetensors files hold between them, whole or cut. A file's metadata "pieces" has, of
// each cut one, where its values begin in the whole and the whole's shape: {"NAME": {"offset": 12, "shape":
// [4, 6]}}, in elements, row-major. In the file itself a cut tensor has one dimension.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace strata::checkpoint {

inline constexpr const char* kPiecesKey = "pieces";

struct Cut {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
};
using Cuts = std::map<std::string, Cut>;  // by the tensor's name

std::string cuts_text(const Cuts& cuts);
// InputError where the metadata is not of this form or does not fit the file's tensors.
Cuts cuts_of(const SafetensorsFile& file);

// All tensors of some files of one folder.
class CutTensors {
 public:
  // InputError where values are missing, or there twice, or pieces are of different wholes.
  // source: for messages, the folder or the only file.
  CutTensors(std::string source, std::vector<SafetensorsFile> files);

  struct Whole {
    std::vector<std::int64_t> shape;
    std::string path;  // of the first file that has some of it
  };
  const std::string& source() const { return source_; }
  const std::map<std::string, Whole>& all() const { return all_; }
  // Elements [from, from + count) of a tensor, from the files that have them.
  std::vector<double> floats(const std::string& name, std::int64_t from, std::int64_t count) const;

 private:
  struct Piece {
    std::int64_t offset = 0, count = 0;
    std::size_t file = 0;
  };
  void add(std::size_t file);
  void check_complete() const;

  std::string source_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Whole> all_;
  std::map<std::string, std::vector<Piece>> pieces_;  // by offset
};

}  // namespace strata::checkpoint
