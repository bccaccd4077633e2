// Token files without an index: llm.c's, told by its header, and nanoGPT's, a stream of u16 without one.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/element_type.h"

namespace strata::data {

struct TokenStream {
  ElementType type;
  std::span<const std::byte> tokens;
};

// The tokens of an llm.c file; nothing if the file does not begin with its magic. Layout (dev/data of llm.c):
// 256 x i32, of which [0] 20240520, [1] 1 with u16 tokens or [0] 20240801, [1] 7 with u32 tokens, and [2] the
// number of tokens. InputError if it begins so but is not sound. `path` is for messages.
std::optional<TokenStream> read_llmc(std::span<const std::byte> bytes, const std::string& path);

// The tokens of a file without header, if it can be one. InputError if it is empty, odd in size, or shows
// that it is something else: a known format, text, 32-bit ids.
TokenStream read_nanogpt(std::span<const std::byte> bytes, const std::string& path);

// What a file that begins so is, if it is something well known other than tokens: "a NumPy array".
std::optional<std::string> known_kind(std::span<const std::byte> bytes);

}  // namespace strata::data
