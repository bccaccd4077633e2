#include "data/tokenizer.h"

#include "base/error.h"

namespace strata::data {

void ByteTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t old = ids.size();
  ids.resize(old + text.size());
  for (std::size_t i = 0; i < text.size(); ++i) ids[old + i] = static_cast<unsigned char>(text[i]);
}

std::string ByteTokenizer::decode(std::int64_t id) const {
  STRATA_CHECK(id >= 0 && id < vocabulary(), "token id ", id, " of ", vocabulary());
  return id == kEndOfDocument ? std::string() : std::string(1, char(id));
}

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind) { return std::make_unique<ByteTokenizer>(); }

}  // namespace strata::data
