#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/bfloat16.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"

namespace strata::checkpoint {
namespace {

template <class T, class In>
std::vector<std::byte> packed(const std::vector<In>& values) {
  std::vector<std::byte> raw(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value(values[i]);
    std::memcpy(raw.data() + i * sizeof(T), &value, sizeof(T));
  }
  return raw;
}

std::int64_t bytes_of(const TensorSource& t) {
  std::int64_t bytes = size_of(t.dtype);
  for (const std::int64_t extent : t.shape) bytes *= extent;
  return bytes;
}

}  // namespace

SafetensorsStream::SafetensorsStream(std::vector<TensorSource> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::string text = metadata.empty() ? "{" : "{\"__metadata__\":" + nlohmann::json(metadata).dump();
  std::int64_t at = 0;
  const std::string* before = nullptr;
  for (const TensorSource& t : tensors_) {
    const std::int64_t size = std::int64_t(t.bytes.size());
    STRATA_CHECK(!before || *before != t.name, "two tensors are named ", t.name);
    STRATA_CHECK(size == bytes_of(t), t.name, " has ", size, " bytes, its shape and type ", bytes_of(t));
    before = &t.name;
    const nlohmann::ordered_json entry{
        {"dtype", file_type(t.dtype)}, {"shape", t.shape}, {"data_offsets", {at, at + size}}};
    text += (text.size() > 1 ? "," : "") + nlohmann::json(t.name).dump() + ":" + entry.dump();
    at += size;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data then starts on an 8-byte boundary
  const std::uint64_t length = text.size();
  header_ = std::string(reinterpret_cast<const char*>(&length), 8) + text;
}

std::int64_t SafetensorsStream::bytes() const {
  std::int64_t bytes = std::int64_t(header_.size());
  for (const TensorSource& t : tensors_) bytes += std::int64_t(t.bytes.size());
  return bytes;
}

void SafetensorsStream::write(const Sink& sink) const {
  sink(std::as_bytes(std::span(header_)));
  for (const TensorSource& t : tensors_) sink(t.bytes);
}

void SafetensorsWriter::add(const std::string& name, const std::string& dtype,
                            std::vector<std::int64_t> shape, const std::vector<double>& values) {
  STRATA_CHECK(dtype == "F64" || dtype == "F32" || dtype == "BF16", "cannot write ", name, " as ", dtype);
  if (dtype == "F64")
    entries_[name] = {DType::Float64, std::move(shape), packed<double>(values)};
  else if (dtype == "F32")
    entries_[name] = {DType::Float32, std::move(shape), packed<float>(values)};
  else
    entries_[name] = {DType::BFloat16, std::move(shape), packed<bfloat16>(values)};
}

void SafetensorsWriter::add_integers(const std::string& name, std::vector<std::int64_t> shape,
                                     const std::vector<std::int64_t>& values) {
  entries_[name] = {DType::Int64, std::move(shape), packed<std::int64_t>(values)};
}

void SafetensorsWriter::write(const std::string& path) const {
  std::vector<TensorSource> sources;
  for (const auto& [name, e] : entries_) sources.push_back({name, e.dtype, e.shape, e.bytes});
  const SafetensorsStream stream(std::move(sources), metadata_);
  const std::string aside = path + ".partial";
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  if (!file) throw InputError(concat("cannot write ", path, ": ", std::strerror(errno)));
  stream.write([&](std::span<const std::byte> bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  });
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(aside, path, error);
  if (!file || error) {
    const std::string why = error ? error.message() : std::string(std::strerror(errno));
    std::remove(aside.c_str());
    throw Error(concat("cannot write ", path, ": ", why));
  }
}

}  // namespace strata::checkpoint
