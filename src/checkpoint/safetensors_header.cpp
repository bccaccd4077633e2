// Reads the header as a stream of JSON events straight into tensors: no document is built, nothing recurses.
#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_value.h"

namespace strata::checkpoint {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDepth = 64;
constexpr const char* kMetadata = "__metadata__";

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw InputError(concat(parts...));
}

// A name as it can stand in a sentence: quoted, escaped, not too long.
std::string shown(const std::string& name) {
  constexpr std::size_t kMost = 120;
  return name.size() > kMost ? json_quote(name.substr(0, kMost)) + "..." : json_quote(name);
}

// Bits of an element; 0: no such type.
std::int64_t bits_of(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> bits{
      {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"BOOL", 8},        {"U8", 8},          {"I8", 8},
      {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
      {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
      {"I64", 64},    {"U64", 64},    {"F64", 64},    {"C64", 64}};
  const auto it = bits.find(dtype);
  return it == bits.end() ? 0 : it->second;
}

class Reader : public json::json_sax_t {
 public:
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override {
    if (place() == Place::Root && is_metadata()) return true;
    return scalar("null");
  }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return number(value == 0 ? "-0" : std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > std::uint64_t(INT64_MAX) || !numbers()) return number(std::to_string(value));
    numbers()->push_back(std::int64_t(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& written) override { return number(written); }
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override { return places_.pop_back(), true; }
  bool key(string_t& name) override;
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    const std::string text = error.what(), message = text.substr(text.find(' ') + 1);  // without its number
    refuse("its header is not JSON (",
           message.substr(0, std::min<std::size_t>(message.find("; last read"), 200)), ")");
  }

 private:
  enum class Place { Outside, Root, Metadata, Tensor, Shape, Offsets, Ignored };

  Place place() const { return places_.empty() ? Place::Outside : places_.back(); }
  bool is_metadata() const { return name_ == kMetadata; }
  std::vector<std::int64_t>* numbers() {
    return place() == Place::Shape ? &tensor_.shape : place() == Place::Offsets ? &offsets_ : nullptr;
  }
  bool open(Place inner) {
    if (places_.size() == kMaxDepth) refuse("its header is nested deeper than ", kMaxDepth, " levels");
    return places_.push_back(inner), true;
  }
  bool number(const std::string& written) {
    if (numbers())
      refuse("tensor ", shown(name_), " has ", written.substr(0, 60), " where a number from 0 is due");
    return scalar(written);
  }
  bool scalar(const std::string& value);
  void check_field(const char* field, bool right) const {
    if (field_ == field && !right) refuse_kind();
  }
  [[noreturn]] void refuse_kind() const {
    refuse("tensor ", shown(name_), " has a dtype, shape or data_offsets of the wrong kind");
  }
  [[noreturn]] void refuse_incomplete() const {
    refuse("tensor ", shown(name_), " lacks dtype, shape or data_offsets");
  }
  void begin_field(const std::string& field);
  void end_tensor();

  SafetensorsHeader header_;
  std::vector<Place> places_;
  std::string name_, field_;  // keys in the root, and in what lies in it
  bool has_metadata_ = false;
  FileTensor tensor_;
  std::vector<std::int64_t> offsets_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
};

// A value that is neither object nor array nor what its place wants.
bool Reader::scalar(const std::string& value) {
  switch (place()) {
    case Place::Outside:
      refuse("its header is not a JSON object");
    case Place::Root:
      if (is_metadata()) refuse("its __metadata__ is not an object");
      refuse_incomplete();
    case Place::Metadata:
      refuse("its __metadata__ ", shown(field_), " is not a string");
    case Place::Tensor:
      for (const char* field : {"dtype", "shape", "data_offsets"}) check_field(field, false);
      return true;
    case Place::Shape:
    case Place::Offsets:
      refuse("tensor ", shown(name_), " has ", value, " where a number from 0 is due");
    default:
      return true;
  }
}

bool Reader::string(string_t& value) {
  if (place() == Place::Metadata) {
    header_.metadata[field_] = std::move(value);
  } else if (place() == Place::Tensor && field_ == "dtype") {
    if (!bits_of(value)) refuse("tensor ", shown(name_), " has the unknown dtype ", shown(value));
    tensor_.dtype = value;
  } else {
    return scalar(shown(value));
  }
  return true;
}

bool Reader::start_object(std::size_t) {
  switch (place()) {
    case Place::Outside:
      return open(Place::Root);
    case Place::Root:
      tensor_ = {};
      offsets_.clear();
      has_dtype_ = has_shape_ = has_offsets_ = false;
      return open(is_metadata() ? Place::Metadata : Place::Tensor);
    case Place::Ignored:
      return open(Place::Ignored);
    default:
      scalar("an object");
      return open(Place::Ignored);
  }
}

bool Reader::start_array(std::size_t) {
  if (place() == Place::Ignored) return open(Place::Ignored);
  if (place() == Place::Tensor && field_ == "shape") return open(Place::Shape);
  if (place() == Place::Tensor && field_ == "data_offsets") return open(Place::Offsets);
  scalar("a list");
  return open(Place::Ignored);
}

bool Reader::key(string_t& name) {
  if (place() == Place::Root) {
    const bool twice =
        name == kMetadata ? std::exchange(has_metadata_, true) : header_.tensors.count(name) > 0;
    if (twice) refuse("its header names ", shown(name), " twice");
    name_ = std::move(name);
  } else if (place() == Place::Metadata) {
    if (header_.metadata.count(name)) refuse("its header names ", shown(name), " twice");
    field_ = std::move(name);
  } else if (place() == Place::Tensor) {
    begin_field(name);
    field_ = std::move(name);
  }
  return true;
}

void Reader::begin_field(const std::string& field) {
  bool* seen = field == "dtype"          ? &has_dtype_
               : field == "shape"        ? &has_shape_
               : field == "data_offsets" ? &has_offsets_
                                         : nullptr;
  if (seen && std::exchange(*seen, true)) refuse("its header names ", shown(field), " twice");
}

bool Reader::end_object() {
  if (place() == Place::Tensor) end_tensor();
  return places_.pop_back(), true;
}

void Reader::end_tensor() {
  if (!has_dtype_ || !has_shape_ || !has_offsets_) refuse_incomplete();
  if (offsets_.size() != 2) refuse_kind();
  tensor_.begin = offsets_[0];
  tensor_.end = offsets_[1];
  std::int64_t bits = 1;
  for (const std::int64_t extent : tensor_.shape)
    if (__builtin_mul_overflow(bits, extent, &bits))
      refuse("tensor ", shown(name_), " has more elements than fit");
  if (__builtin_mul_overflow(bits, bits_of(tensor_.dtype), &bits))
    refuse("tensor ", shown(name_), " has more elements than fit");
  if (bits % 8 != 0) refuse("tensor ", shown(name_), " does not fill whole bytes");
  if (tensor_.end < tensor_.begin || bits / 8 != tensor_.end - tensor_.begin)
    refuse("tensor ", shown(name_), " takes bytes ", tensor_.begin, " to ", tensor_.end,
           ", which is not its shape and dtype");
  header_.tensors.emplace(name_, std::move(tensor_));
}

// The tensors must tile the data exactly.
void check_tiling(const std::map<std::string, FileTensor>& tensors, std::int64_t data_bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const auto& [name, t] : tensors) spans.emplace_back(t.begin, t.end);
  std::sort(spans.begin(), spans.end());
  std::int64_t at = 0;
  for (const auto& [begin, end] : spans) {
    if (begin != at)
      refuse("its data has ", begin > at ? "a hole" : "an overlap", " at byte ", std::min(at, begin));
    at = end;
  }
  if (at != data_bytes) refuse("its header describes ", at, " bytes of data, the file holds ", data_bytes);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(const std::string& text, std::int64_t data_bytes) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos || text[start] != '{') refuse("its header does not begin with {");
  // nlohmann takes a zero byte for the end of the text.
  if (text.find('\0') != std::string::npos) refuse("its header holds a zero byte");
  Reader reader;
  json::sax_parse(text, &reader);
  SafetensorsHeader header = reader.take();
  check_tiling(header.tensors, data_bytes);
  return header;
}

}  // namespace strata::checkpoint
