// The .idx file beside a Megatron .bin: element type, lengths and byte offsets of sequences, documents as
// runs of sequences. Layout: core/datasets/indexed_dataset.py of Megatron-LM.
//    0  "MMIDIDX\0\0"          18  u64 sequences S        34 + 4 S   S x i64 byte offset in the .bin
//    9  u64 version = 1        26  u64 documents D + 1    34 + 12 S  (D + 1) x i64 sequences before document
//    d
//   17  u8 type                34  S x i32 length         then, in multimodal sets, S x i8 mode
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "data/element_type.h"

namespace strata::data {

constexpr std::string_view kMegatronMagic{"MMIDIDX\0\0", 9};
constexpr std::int64_t kMegatronHeader = 34;

struct MegatronIndex {
  ElementType type;
  std::int64_t sequences, documents, tokens;
  std::int64_t offsets_at, documents_at;  // where the two arrays begin
};

// Checks everything there is to check: sizes, counts, that sequences fill the .bin (of `bin_size` bytes) one
// after the other, that documents are runs of sequences. `index` and `bin` are the files' names. InputError.
MegatronIndex read_megatron_index(std::span<const std::byte> bytes, std::int64_t bin_size,
                                  const std::string& index, const std::string& bin);

}  // namespace strata::data
