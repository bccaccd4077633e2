// llm.c: a header of 256 x i32, then tokens.
#include "base/error.h"
#include "data/single_file.h"

namespace strata::data {

std::optional<TokenStream> read_llmc(std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::int32_t kGpt2 = 20240520, kLlama3 = 20240801, kEvaluation = 20240522;
  constexpr std::int64_t kHeader = 1024;
  const auto size = std::int64_t(bytes.size());
  const auto word = [&](std::int64_t i) { return load<std::int32_t>(bytes.data() + 4 * i); };
  const auto refuse = [&](const auto&... parts) {
    throw InputError(concat(path, " is not a sound llm.c token file: ", parts...));
  };
  if (size < 4) return {};
  const std::int32_t magic = word(0);
  if (magic == kEvaluation)
    throw InputError(path + " is an llm.c evaluation file (multiple choice), not a stream of tokens");
  if (magic != kGpt2 && magic != kLlama3) return {};
  if (size < kHeader) refuse("it ends within its header, after ", size, " of ", kHeader, " bytes");
  const std::int32_t version = magic == kGpt2 ? 1 : 7;
  if (word(1) != version) refuse("its version is ", word(1), ", known with this magic is ", version);
  const ElementType type = magic == kGpt2 ? ElementType::U16 : ElementType::U32;
  const std::int64_t tokens = word(2);
  if (tokens < 1) refuse("its header says ", tokens, " tokens");
  if (size != kHeader + tokens * width(type))
    refuse("its header says ", tokens, " tokens, that is ", kHeader + tokens * width(type),
           " bytes, but it has ", size);
  return TokenStream{type, bytes.subspan(kHeader)};
}

}  // namespace strata::data
