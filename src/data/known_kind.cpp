// Files that are often at hand where a token file is meant, told by how they begin.
#include <string_view>

#include "data/single_file.h"

namespace strata::data {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view magic, name;
};

constexpr Kind kKinds[] = {
    {"\x93NUMPY"sv, "a NumPy array; write its ids without header (ndarray.tofile), or as Megatron files"},
    {"MMIDIDX\0\0"sv, "a Megatron index; it is named by the prefix that it shares with its .bin"},
    {"TNTIDX\0\0"sv, "an index of an old Megatron format that is not read"},
    {"BIN.TOK\n"sv, "an LLMQ token file, a format that is not read"},
    {"PAR1"sv, "a Parquet file"},
    {"ARROW1"sv, "an Arrow file"},
    {"PK\x03\x04"sv, "a ZIP archive (an .npz or a PyTorch file is one)"},
    {"\x1f\x8b"sv, "compressed by gzip"},
    {"\x28\xb5\x2f\xfd"sv, "compressed by zstd"},
    {"\xfd"
     "7zXZ\0"sv,
     "compressed by xz"},
    {"BZh"sv, "compressed by bzip2"},
    {"\x89HDF\r\n"sv, "an HDF5 file"},
    {"GGUF"sv, "a GGUF model"},
    {"\x7f"
     "ELF"sv,
     "a program"},
    {"%PDF-"sv, "a PDF"},
    {"SQLite format 3\0"sv, "an SQLite database"},
    {"\xff\xfe"sv, "text in UTF-16"},
    {"\xfe\xff"sv, "text in UTF-16"},
};

// A header length that fits, then the brace of the JSON header.
bool is_safetensors(std::span<const std::byte> bytes) {
  constexpr std::size_t kLength = 8;
  return bytes.size() > kLength + 1 && bytes[kLength] == std::byte{'{'} &&
         load<std::uint64_t>(bytes.data()) <= bytes.size() - kLength;
}

}  // namespace

std::optional<std::string> known_kind(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Kind& kind : kKinds)
    if (text.starts_with(kind.magic)) return std::string(kind.name);
  if (is_safetensors(bytes)) return "a safetensors file";
  // Pickle, protocols 2 to 5.
  if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 && text.ends_with('.'))
    return "a Python pickle";
  return {};
}

}  // namespace strata::data
