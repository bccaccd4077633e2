// Writes a Megatron pair PREFIX.bin, PREFIX.idx as documents come, in constant memory. The pair appears whole
// or not at all.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "data/element_type.h"
#include "data/staged_file.h"

namespace strata::data {

class MegatronWriter {
 public:
  // Ids are u16 where `vocabulary` is below 65500, else i32, as Megatron chooses. `longest` is the most
  // tokens of one sequence: a longer document becomes several. InputError if a file of the pair is there
  // already, unless `overwrite`, or cannot be made.
  MegatronWriter(const std::string& prefix, std::int64_t vocabulary, bool overwrite,
                 std::int64_t longest = INT32_MAX);

  ElementType type() const { return type_; }
  // Adds to the current document.
  void append(std::span<const std::int32_t> ids);
  void end_document();
  // Completes the pair on the disk; nothing can be added then. Without it, nothing stays.
  void finish();

 private:
  void end_sequence(bool ends_document);
  void write_index(StagedFile& index);
  template <class T>
  static void put(StagedFile& file, T value);
  template <class F>
  void for_each_sequence(F f);

  std::string prefix_;
  std::int64_t vocabulary_, longest_;
  ElementType type_;
  StagedFile bin_;
  // Lengths of sequences so far, in a file without name: as they are where the document ends too, else
  // negated.
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> lengths_;
  std::int64_t length_ = 0, sequences_ = 0, documents_ = 0;
};

}  // namespace strata::data
