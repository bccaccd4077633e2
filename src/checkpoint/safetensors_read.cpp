#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_header.h"

namespace strata::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::int64_t kHeaderLimit = 100'000'000;

struct Half {
  std::uint16_t bits;
  operator float() const {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    return sign * (exponent ? std::ldexp(1024.f + float(mantissa), exponent - 25)
                            : std::ldexp(float(mantissa), -24));
  }
};

bool is_text(std::uint64_t bytes) {
  const std::string_view all(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  return std::all_of(all.begin(), all.end(),
                     [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); });
}

// The header's length, from the first eight bytes.
std::int64_t header_length(const InputFile& file) {
  if (file.size() < 8) throw InputError("it is shorter than its 8-byte length");
  std::uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (is_text(length)) throw InputError("it begins with text, not with the length of a header");
  if (length > std::uint64_t(kHeaderLimit))
    throw InputError(concat("its header claims ", length, " bytes; at most ", kHeaderLimit, " are allowed"));
  if (std::int64_t(length) > file.size() - 8)
    throw InputError(concat("its header claims ", length, " bytes, the file has ", file.size() - 8));
  return std::int64_t(length);
}

[[noreturn]] void refuse_type(const std::string& path, const std::string& name, const FileTensor& t) {
  throw InputError(concat(path, ": tensor \"", name, "\" is ", t.dtype, "; F64, F32, BF16 or F16 is needed"));
}

}  // namespace

std::int64_t FileTensor::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t e : shape) n *= e;
  return n;
}

std::string_view file_type(DType type) {
  switch (type) {
    case DType::Float64:
      return "F64";
    case DType::BFloat16:
      return "BF16";
    case DType::Int32:
      return "I32";
    case DType::Int64:
      return "I64";
    default:
      return "F32";
  }
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(std::make_shared<InputFile>(path)) {
  try {
    std::string text(std::size_t(header_length(*file_)), '\0');
    file_->read(8, std::as_writable_bytes(std::span(text)));
    data_begin_ = 8 + std::int64_t(text.size());
    SafetensorsHeader header = parse_safetensors_header(text, file_->size() - data_begin_);
    tensors_ = std::move(header.tensors);
    metadata_ = std::move(header.metadata);
  } catch (const InputError& e) {
    throw InputError(concat(path, " is not a sound safetensors file: ", e.what()));
  }
}

const FileTensor& SafetensorsFile::at(const std::string& name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) throw InputError(concat(path(), " has no tensor \"", name, "\""));
  return it->second;
}

void SafetensorsFile::read(const std::string& name, std::span<std::byte> to) const {
  const FileTensor& t = at(name);
  STRATA_CHECK(std::int64_t(to.size()) == t.end - t.begin, name, " has ", t.end - t.begin,
               " bytes, asked for ", to.size());
  file_->read(data_begin_ + t.begin, to);
}

template <class From, class To>
void SafetensorsFile::read_converted(const FileTensor& t, std::span<To> to, std::int64_t from) const {
  constexpr std::size_t kChunk = 1 << 16;
  std::vector<From> chunk(std::min(kChunk, to.size()));
  std::int64_t at = data_begin_ + t.begin + from * std::int64_t(sizeof(From));
  while (!to.empty()) {
    const std::span part = std::span(chunk).first(std::min(chunk.size(), to.size()));
    file_->read(at, std::as_writable_bytes(part));
    for (std::size_t i = 0; i < part.size(); ++i) to[i] = To(part[i]);
    at += std::int64_t(part.size_bytes());
    to = to.subspan(part.size());
  }
}

template <class To>
void SafetensorsFile::read_as(const std::string& name, std::span<To> to, std::int64_t from) const {
  const FileTensor& t = at(name);
  if (t.dtype == file_type(dtype_of<To>()))
    return file_->read(data_begin_ + t.begin + from * std::int64_t(sizeof(To)), std::as_writable_bytes(to));
  if (t.dtype == "F64") return read_converted<double>(t, to, from);
  if (t.dtype == "F32") return read_converted<float>(t, to, from);
  if (t.dtype == "BF16") return read_converted<bfloat16>(t, to, from);
  if (t.dtype == "F16") return read_converted<Half>(t, to, from);
  refuse_type(path(), name, t);
}

template <class To>
void SafetensorsFile::read_all(const std::string& name, std::span<To> to) const {
  const std::int64_t numel = at(name).numel();
  STRATA_CHECK(std::int64_t(to.size()) == numel, name, " has ", numel, " elements, asked for ", to.size());
  read_as(name, to);
}

void SafetensorsFile::read(const std::string& name, std::span<float> to) const { read_all(name, to); }
void SafetensorsFile::read(const std::string& name, std::span<double> to) const { read_all(name, to); }
void SafetensorsFile::read(const std::string& name, std::span<bfloat16> to) const { read_all(name, to); }

std::vector<double> SafetensorsFile::floats(const std::string& name) const {
  return floats(name, 0, at(name).numel());
}

std::vector<double> SafetensorsFile::floats(const std::string& name, std::int64_t from,
                                            std::int64_t count) const {
  const FileTensor& t = at(name);
  const std::int64_t numel = t.numel();
  if (t.dtype != "F64" && t.dtype != "F32" && t.dtype != "BF16" && t.dtype != "F16")
    refuse_type(path(), name, t);  // before memory is taken
  STRATA_CHECK(0 <= from && 0 <= count && from + count <= numel, name, " has ", numel,
               " elements, asked for [", from, ", ", from + count, ")");
  std::vector<double> values(static_cast<std::size_t>(count));
  read_as(name, std::span(values), from);
  return values;
}

std::vector<std::int64_t> SafetensorsFile::integers(const std::string& name) const {
  const FileTensor& t = at(name);
  if (t.dtype != "I64" && t.dtype != "I32")
    throw InputError(concat(path(), ": tensor \"", name, "\" is ", t.dtype, "; I64 or I32 is needed"));
  std::vector<std::int64_t> values(std::size_t(t.numel()));
  if (t.dtype == "I64")
    file_->read(data_begin_ + t.begin, std::as_writable_bytes(std::span(values)));
  else
    read_converted<std::int32_t>(t, std::span(values));
  return values;
}

}  // namespace strata::checkpoint
