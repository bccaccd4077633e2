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
std::vector<char> packed(const std::vector<In>& values) {
  std::vector<T> typed(values.begin(), values.end());
  std::vector<char> raw(typed.size() * sizeof(T));
  if (!raw.empty()) std::memcpy(raw.data(), typed.data(), raw.size());
  return raw;
}

}  // namespace

void SafetensorsWriter::add(const std::string& name, const std::string& dtype,
                            std::vector<std::int64_t> shape, const std::vector<double>& values) {
  STRATA_CHECK(dtype == "F64" || dtype == "F32" || dtype == "BF16", "cannot write ", name, " as ", dtype);
  auto raw = dtype == "F64"   ? packed<double>(values)
             : dtype == "F32" ? packed<float>(values)
                              : packed<bfloat16>(std::vector<float>(values.begin(), values.end()));
  entries_[name] = {dtype, std::move(shape), std::move(raw)};
}

void SafetensorsWriter::add_integers(const std::string& name, std::vector<std::int64_t> shape,
                                     const std::vector<std::int64_t>& values) {
  entries_[name] = {"I64", std::move(shape), packed<std::int64_t>(values)};
}

void SafetensorsWriter::write(const std::string& path) const {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata_.empty()) header["__metadata__"] = metadata_;
  std::int64_t at = 0;
  for (const auto& [name, e] : entries_) {
    header[name] = {
        {"dtype", e.dtype}, {"shape", e.shape}, {"data_offsets", {at, at + std::int64_t(e.bytes.size())}}};
    at += std::int64_t(e.bytes.size());
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data then starts on an 8-byte boundary
  const std::uint64_t length = text.size();
  const std::string aside = path + ".partial";
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  if (!file) throw InputError(concat("cannot write ", path, ": ", std::strerror(errno)));
  file.write(reinterpret_cast<const char*>(&length), 8);
  file.write(text.data(), std::streamsize(text.size()));
  for (const auto& [name, e] : entries_) file.write(e.bytes.data(), std::streamsize(e.bytes.size()));
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(aside, path, error);
  if (!file || error) {
    std::remove(aside.c_str());
    throw Error(
        concat("cannot write ", path, ": ", error ? error.message() : std::string(std::strerror(errno))));
  }
}

}  // namespace strata::checkpoint
