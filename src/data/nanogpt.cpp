// nanoGPT: u16 tokens and nothing else. Nothing says so, hence all that speaks against it is looked for.
#include <algorithm>

#include "base/error.h"
#include "data/single_file.h"

namespace strata::data {
namespace {

constexpr std::size_t kLooked = 1 << 16;  // bytes at the beginning that are looked at

// UTF-8 without control characters, but for a character that the end of what is looked at cuts off.
bool is_text(std::span<const std::byte> bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    const auto c = std::to_integer<unsigned>(bytes[i]);
    const bool is_control = (c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f') || c == 0x7f;
    if (is_control) return false;
    const std::size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : 3;
    if ((c >= 0x80 && c < 0xc2) || c > 0xf4) return false;
    for (std::size_t k = 1; k <= more && i + k < bytes.size(); ++k)
      if ((std::to_integer<unsigned>(bytes[i + k]) & 0xc0) != 0x80) return false;
    i += 1 + more;
  }
  return true;
}

// Every other u16 is 0 or 1: the upper halves of 32-bit ids below 131072.
bool is_32_bit(std::span<const std::byte> bytes) {
  constexpr std::size_t kFewest = 32;  // bytes that are enough to tell
  if (bytes.size() < kFewest || bytes.size() % 4 != 0) return false;
  bool some_low = false;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    if (load<std::uint16_t>(bytes.data() + i + 2) > 1) return false;
    some_low = some_low || load<std::uint16_t>(bytes.data() + i) > 1;
  }
  return some_low;
}

// A kilobyte of which only the first words are set is somebody's header.
bool has_header(std::span<const std::byte> bytes) {
  constexpr std::size_t kHeader = 1024, kWords = 32;
  const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
  return bytes.size() >= kHeader && std::all_of(bytes.begin() + kWords, bytes.begin() + kHeader, is_zero) &&
         !std::all_of(bytes.begin(), bytes.begin() + kWords, is_zero);
}

}  // namespace

TokenStream read_nanogpt(std::span<const std::byte> bytes, const std::string& path) {
  const auto refuse = [&](const auto&... parts) {
    throw InputError(concat(path, " is not a token file: ", parts...));
  };
  if (bytes.empty()) refuse("it is empty");
  const std::span<const std::byte> start = bytes.first(std::min(kLooked, bytes.size()));
  if (const auto kind = known_kind(bytes)) refuse("it is ", *kind);
  if (is_text(start)) refuse("it is text; strata prepare makes token files of text and JSONL");
  if (bytes.size() % 2 != 0)
    refuse("it has no known header, and ", bytes.size(), " bytes are not a whole number of u16 tokens");
  if (has_header(bytes))
    refuse("it has a header, but not one of llm.c (its first bytes are ", load<std::int32_t>(bytes.data()),
           " as an i32)");
  if (is_32_bit(start)) refuse("it has no header and looks like 32-bit ids; without header, ids are u16");
  return {ElementType::U16, bytes};
}

}  // namespace strata::data
