#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/bfloat16.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace strata::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little);
using Json = nlohmann::json;
constexpr std::int64_t kHeaderLimit = 100'000'000;

[[noreturn]] void refuse(const std::string& path, const std::string& fault) {
  throw InputError(concat(path, " is not a sound safetensors file: ", fault));
}

const std::map<std::string, std::int64_t>& type_sizes() {
  static const std::map<std::string, std::int64_t> sizes{
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},  {"U64", 8},     {"I32", 4},    {"U32", 4},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  return sizes;
}

// Refuses a header that names a key twice: the parser would silently keep the last.
Json parse_header(const std::string& path, const std::string& text) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const Json::exception& e) {
    refuse(path, concat("its header is not JSON (", e.what(), ")"));
  }
  if (!twice.empty()) refuse(path, concat("its header names \"", twice, "\" twice"));
  if (!header.is_object()) refuse(path, "its header is not a JSON object");
  return header;
}

// shape product, refusing overflow.
std::int64_t product(const std::string& path, const std::string& name,
                     const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t e : shape)
    if (__builtin_mul_overflow(n, e, &n))
      refuse(path, concat("tensor \"", name, "\" has more elements than fit"));
  return n;
}

std::int64_t whole_number(const std::string& path, const std::string& name, const Json& value) {
  if (!value.is_number_integer() || value < 0 ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t(INT64_MAX)))
    refuse(path, concat("tensor \"", name, "\" has ", value.dump(), " where a number from 0 is due"));
  return value.get<std::int64_t>();
}

FileTensor parse_tensor(const std::string& path, const std::string& name, const Json& entry) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    refuse(path, concat("tensor \"", name, "\" lacks dtype, shape or data_offsets"));
  if (!entry["dtype"].is_string() || !entry["shape"].is_array() || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2)
    refuse(path, concat("tensor \"", name, "\" has a dtype, shape or data_offsets of the wrong kind"));
  FileTensor t;
  t.dtype = entry["dtype"].get<std::string>();
  const auto size = type_sizes().find(t.dtype);
  if (size == type_sizes().end())
    refuse(path, concat("tensor \"", name, "\" has the unknown dtype \"", t.dtype, "\""));
  for (const Json& e : entry["shape"]) t.shape.push_back(whole_number(path, name, e));
  t.begin = whole_number(path, name, entry["data_offsets"][0]);
  t.end = whole_number(path, name, entry["data_offsets"][1]);
  std::int64_t bytes = 0;
  if (t.end < t.begin || __builtin_mul_overflow(product(path, name, t.shape), size->second, &bytes) ||
      bytes != t.end - t.begin)
    refuse(path, concat("tensor \"", name, "\" takes bytes ", t.begin, " to ", t.end,
                        ", which is not its shape and dtype"));
  return t;
}

std::map<std::string, std::string> parse_metadata(const std::string& path, const Json& entry) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) refuse(path, "its __metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) refuse(path, concat("its __metadata__ \"", key, "\" is not a string"));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The tensors must tile the data exactly.
void check_tiling(const std::string& path, const std::map<std::string, FileTensor>& tensors,
                  std::int64_t data_bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const auto& [name, t] : tensors) spans.emplace_back(t.begin, t.end);
  std::sort(spans.begin(), spans.end());
  std::int64_t at = 0;
  for (const auto& [begin, end] : spans) {
    if (begin != at)
      refuse(path,
             concat("its data has ", begin > at ? "a hole" : "an overlap", " at byte ", std::min(at, begin)));
    at = end;
  }
  if (at != data_bytes)
    refuse(path, concat("its header describes ", at, " bytes of data, the file holds ", data_bytes));
}

double half_to_double(std::uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double sign = h >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

template <class T, class Out>
std::vector<Out> converted(const std::vector<char>& raw) {
  std::vector<T> typed(raw.size() / sizeof(T));
  if (!raw.empty()) std::memcpy(typed.data(), raw.data(), raw.size());
  return std::vector<Out>(typed.begin(), typed.end());
}

}  // namespace

std::int64_t FileTensor::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t e : shape) n *= e;
  return n;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw InputError(concat("cannot read ", path, ": no such file"));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(concat("cannot read ", path, ": ", std::strerror(errno)));
  const std::int64_t size = std::int64_t(std::filesystem::file_size(path));
  std::uint64_t length = 0;
  if (size < 8 || !file.read(reinterpret_cast<char*>(&length), 8))
    refuse(path, "it is shorter than its 8-byte length");
  if (length > std::uint64_t(kHeaderLimit))
    refuse(path, concat("its header claims ", length, " bytes; at most 100000000 are allowed"));
  if (std::int64_t(length) > size - 8)
    refuse(path, concat("its header claims ", length, " bytes, the file has ", size - 8));
  std::string text(length, '\0');
  file.read(text.data(), std::streamsize(length));
  if (text.empty() || text[0] != '{') refuse(path, "its header does not begin with {");
  data_begin_ = 8 + std::int64_t(length);
  const Json header = parse_header(path, text);
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__") tensors_[name] = parse_tensor(path, name, entry);
  if (header.contains("__metadata__")) metadata_ = parse_metadata(path, header["__metadata__"]);
  check_tiling(path, tensors_, size - data_begin_);
}

const FileTensor& SafetensorsFile::at(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) throw InputError(concat(path_, " has no tensor \"", name, "\""));
  return it->second;
}

std::vector<char> SafetensorsFile::bytes(const FileTensor& t) const {
  std::ifstream file(path_, std::ios::binary);
  std::vector<char> raw(t.end - t.begin);
  file.seekg(data_begin_ + t.begin);
  if (!file.read(raw.data(), std::streamsize(raw.size())))
    refuse(path_, "it became shorter while it was read");
  return raw;
}

std::vector<double> SafetensorsFile::floats(const std::string& name) const {
  const FileTensor& t = at(name);
  const std::vector<char> raw = bytes(t);
  if (t.dtype == "F64") return converted<double, double>(raw);
  if (t.dtype == "F32") return converted<float, double>(raw);
  if (t.dtype == "BF16") return converted<bfloat16, double>(raw);
  if (t.dtype == "F16") {
    std::vector<double> values;
    for (const std::uint16_t h : converted<std::uint16_t, std::uint16_t>(raw))
      values.push_back(half_to_double(h));
    return values;
  }
  throw InputError(
      concat(path_, ": tensor \"", name, "\" is ", t.dtype, "; F64, F32, BF16 or F16 is needed"));
}

std::vector<std::int64_t> SafetensorsFile::integers(const std::string& name) const {
  const FileTensor& t = at(name);
  const std::vector<char> raw = bytes(t);
  if (t.dtype == "I64") return converted<std::int64_t, std::int64_t>(raw);
  if (t.dtype == "I32") return converted<std::int32_t, std::int64_t>(raw);
  throw InputError(concat(path_, ": tensor \"", name, "\" is ", t.dtype, "; I64 or I32 is needed"));
}

}  // namespace strata::checkpoint
