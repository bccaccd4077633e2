// The JSON header of a safetensors file.
#pragma once
#include "checkpoint/safetensors.h"

namespace strata::checkpoint {

struct SafetensorsHeader {
  std::map<std::string, FileTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads a header with `data_bytes` of data behind it; everything that is not exactly right is an InputError
// that says what.
SafetensorsHeader parse_safetensors_header(const std::string& text, std::int64_t data_bytes);

}  // namespace strata::checkpoint
